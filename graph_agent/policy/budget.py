"""What may enter a prompt, and what may enter the record: a tool result is cut at an item boundary, and says so."""

from __future__ import annotations

import json
from typing import Any

from graph_agent.models.canonical import canonical_json, digest

MAX_RESULT_BYTES = 8 * 1024
"""Of a result as the model reads it."""
MAX_KEPT_BYTES = 256 * 1024
"""Of a result as the turn knows it and the record holds it."""

LEFT_OUT = "left_out"
"""The key that tells of what a result has lost on its way into the turn."""

_LONGEST_TEXT = 1000
"""Characters of an error, where a result has to be cut."""


def fit_data(data: dict[str, Any] | list[Any] | None, limit: int = MAX_KEPT_BYTES) -> dict[str, Any] | list[Any] | None:
    """`data` of a server within about `limit` bytes, for the turn and its record.

    Of what is larger the longest list keeps its first items, or a lone text its beginning; `left_out` tells how large the
    whole was, and its SHA-256. Raises ValueError, TypeError or RecursionError for what is not JSON.
    """
    text = canonical_json(data)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= limit:
        return data
    told = {"bytes": size, "sha256": digest(text)}
    whole = data if isinstance(data, dict) else {"items": data}
    if whole.keys() == {"text"} and isinstance(whole["text"], str):
        # A character takes six bytes at most: a control, escaped.
        return {"text": whole["text"][: limit // 6], LEFT_OUT: told}
    cut = fit_result({"data": whole}, limit)
    return {**(cut["data"] or {}), LEFT_OUT: {**told, "told": cut["truncated"]}}


def fit_result(response: dict[str, Any], limit: int = MAX_RESULT_BYTES) -> dict[str, Any]:
    """`response` within `limit` bytes of JSON.

    The longest list in `response["data"]` loses items from its end; where that does not help, `data` is left out. Either way
    the key `truncated` tells in words what is missing.
    """
    if _size(response) <= limit:
        return response
    data = response.get("data")
    lists = {key: value for key, value in data.items() if isinstance(value, list)} if isinstance(data, dict) else {}
    if isinstance(data, dict) and lists:
        key = max(sorted(lists), key=lambda name: _size(lists[name]))
        items = lists[key]
        low, high = 0, len(items)
        while low < high:
            middle = (low + high + 1) // 2
            if _size(_shortened(response, data, key, items, middle)) <= limit:
                low = middle
            else:
                high = middle - 1
        cut = _shortened(response, data, key, items, low)
        if low and _size(cut) <= limit:
            return cut
    bare = {key: _brief(value) for key, value in response.items()}
    return {**bare, "data": None, "truncated": "the result is too large to show"}


def _shortened(response: dict[str, Any], data: dict[str, Any], key: str, items: list[Any], count: int) -> dict[str, Any]:
    told = f"only the first {count} of {len(items)} are shown"
    return {**response, "data": {**data, key: items[:count]}, "truncated": told}


def _brief(value: Any) -> Any:
    return f"{value[:_LONGEST_TEXT]}…" if isinstance(value, str) and len(value) > _LONGEST_TEXT else value


def _size(value: Any) -> int:
    """Bytes of `value` as it goes over the wire: with the blanks that JSON is written with."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
