"""References of a JSON Schema to its own parts: the one place that reads a JSON Pointer (RFC 6901) in a `$ref`."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote


def find_part(root: Any, reference: str) -> Any:
    """Return the part of `root` that a reference such as `#/$defs/Size` names; None if it names none, or another document."""
    if reference in ("", "#"):
        return root
    if not reference.startswith("#/"):
        return None
    node = root
    try:
        for step in unquote(reference[2:]).split("/"):
            node = node[int(step)] if isinstance(node, list) else node[step.replace("~1", "/").replace("~0", "~")]
    except (KeyError, IndexError, ValueError, TypeError):
        return None
    return node
