"""Canonical JSON: equal values have equal texts, so that digests and signatures of them can be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys and no spaces. NaN and infinities raise ValueError: they are not JSON."""
    return _encode(value)


def plain_numbers(value: Any) -> Any:
    """Return a JSON value in which equal numbers are the same number: 1.0 is 1."""
    if isinstance(value, dict):
        return {name: plain_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same_call_digest(tool_name: str, arguments: Any) -> str:
    """Return the digest of a call: the same call has the same one, however its numbers are written."""
    return digest([tool_name, plain_numbers(arguments)])


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the fields of objects that are null: to have none is the same."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def digest(value: Any) -> str:
    """Return the SHA-256 of `value` in hex: of a text itself, of any other value as canonical JSON."""
    text = value if isinstance(value, str) else canonical_json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
