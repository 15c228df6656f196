"""The data of a result as the model and the user read it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

_FRACTION: Final = re.compile(r"\A(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+")


def readable_data(data: Any, unread: Collection[str]) -> Any:
    """Return `data` without the fields called `unread` and without nulls, and with times in whole seconds."""
    if isinstance(data, list):
        return [readable_data(item, unread) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _FRACTION.sub(r"\1", value) if key.endswith("_at") and isinstance(value, str) else readable_data(value, unread)
        for key, value in data.items()
        if key not in unread and value is not None
    }
