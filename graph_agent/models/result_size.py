"""Size limits for tool results: a result that is too large is shortened between list items and says so."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

from graph_agent.models.canonical import canonical_json, digest

MAX_RESULT_BYTES = 8 * 1024
"""Limit for a result in the model's prompt."""
MAX_KEPT_BYTES = 256 * 1024
"""Limit for a result in the state of a turn and in its record."""

LEFT_OUT = "left_out"
"""The key under which a shortened result describes the original. Part of stored records."""

_MAX_ERROR_CHARS = 1000
"""Limit for an error text inside a result that has to be shortened."""


def fit_data(data: dict[str, Any] | list[Any] | None, limit: int = MAX_KEPT_BYTES) -> dict[str, Any] | list[Any] | None:
    """Return a server's `data` within about `limit` bytes, for the turn and its record.

    Larger data keeps the first items of its longest list, or the beginning of a single text; `left_out` has the size and the
    SHA-256 of the original. Raises ValueError, TypeError or RecursionError for data that is not JSON.
    """
    text = canonical_json(data)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= limit:
        return data
    original = {"bytes": size, "sha256": digest(text)}
    whole = data if isinstance(data, dict) else {"items": data}
    if whole.keys() == {"text"} and isinstance(whole["text"], str):
        # A character takes at most six bytes: an escaped control character.
        return {"text": whole["text"][: limit // 6], LEFT_OUT: original}
    shortened = fit_result({"data": whole}, limit)
    # The key "told" is part of stored records.
    return {**(shortened["data"] or {}), LEFT_OUT: {**original, "told": shortened["truncated"]}}


def fit_result(response: dict[str, Any], limit: int = MAX_RESULT_BYTES) -> dict[str, Any]:
    """Return `response` within `limit` bytes of JSON.

    The longest list in `response["data"]` loses items from its end; if that is not enough, `data` is left out. In both cases
    the key `truncated` says in words what is missing.
    """
    if _size(response) <= limit:
        return response
    data = response.get("data")
    lists = {key: value for key, value in data.items() if isinstance(value, list)} if isinstance(data, dict) else {}
    if isinstance(data, dict) and lists:
        # Sorted first, so that of two lists of equal size the same one is shortened on every machine.
        key = max(sorted(lists), key=lambda name: _size(lists[name]))
        items = lists[key]

        def shortened(count: int) -> dict[str, Any]:
            notice = f"only the first {count} of {len(items)} are shown"
            return {**response, "data": {**data, key: items[:count]}, "truncated": notice}

        # The largest number of items that fits. Nothing much longer than the limit is encoded, however long the list is.
        most = 1
        while most < len(items) and _size(shortened(most)) <= limit:
            most *= 2
        counts = range(1, min(most, len(items)) + 1)
        if fitting := bisect_right(counts, limit, key=lambda count: _size(shortened(count))):
            return shortened(fitting)
    bare = {key: _with_short_text(value) for key, value in response.items()}
    return {**bare, "data": None, "truncated": "the result is too large to show"}


def _with_short_text(value: Any) -> Any:
    return f"{value[:_MAX_ERROR_CHARS]}…" if isinstance(value, str) and len(value) > _MAX_ERROR_CHARS else value


def _size(value: Any) -> int:
    """Return the size of `value` in bytes as it is sent: JSON with spaces after separators."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
