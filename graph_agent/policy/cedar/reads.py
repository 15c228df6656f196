"""The parts of `context` that rules read: only these are converted and recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from cedarpy import pst

Path = tuple[str, ...]


class Reads:
    """The attribute paths below `context` that the conditions of rules name."""

    def __init__(self, conditions: Iterable[object]) -> None:
        self._paths = frozenset(path for condition in conditions for path in _paths(condition))

    def has(self, *path: str) -> bool:
        """True if a rule reads the value at `path`, a part of it, or a record that contains it."""
        return any(path[: len(read)] == read[: len(path)] for read in self._paths)


def nodes(node: object) -> Iterator[object]:
    """Yield the direct parts of a node of Cedar's syntax tree."""
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, tuple | list):
        yield from node
    elif is_dataclass(node):
        yield from (getattr(node, field.name) for field in fields(node))


def walk(node: object) -> Iterator[object]:
    """Yield `node` and everything below it."""
    yield node
    for part in nodes(node):
        yield from walk(part)


def _paths(node: object) -> Iterator[Path]:
    path = _path(node)
    if path is not None:
        yield path
        return
    if isinstance(node, pst.HasAttr) and (base := _path(node.base)) is not None:
        yield (*base, *node.attrs)
        return
    for part in nodes(node):
        yield from _paths(part)


def _path(node: object) -> Path | None:
    """Return the path that `context.a.b` reads; None for another expression."""
    if node == pst.Var("context"):
        return ()
    if isinstance(node, pst.GetAttr) and (base := _path(node.base)) is not None:
        return (*base, node.attr)
    return None
