"""The keys between the pages of a list: the time and the id of the last item of a page, as clients send them back."""

from __future__ import annotations

from datetime import datetime

from graph_agent.errors import ServiceError, ServiceErrorCode

PageKey = tuple[datetime, str]

MAX_KEY = 300
"""The longest key, in characters."""


def next_after(at: datetime, item_id: str) -> str:
    """Return the `next` of a page that ends with this item."""
    return f"{at.isoformat()}_{item_id}"


def key_of(before: str) -> PageKey:
    """Return the key behind which a page begins. Raises `ServiceError` VALIDATION_ERROR."""
    at, _, item_id = before.partition("_")
    try:
        key = datetime.fromisoformat(at), item_id
    except ValueError:
        key = None
    if key is None or key[0].tzinfo is None or not item_id:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "`before` is the `next` of a page of this list.")
    return key
