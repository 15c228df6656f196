"""Canonical JSON: equal values have equal texts, so that digests and signatures of them can be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys and no spaces. NaN and infinities raise ValueError: they are not JSON."""
    return _encode(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of `value` in hex: of a text itself, of any other value as canonical JSON."""
    text = value if isinstance(value, str) else canonical_json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
