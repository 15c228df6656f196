"""The objects that calls name: decides which changes of a message the question about a later call has to mention.

No schema says which argument names an object. Calls that cannot be distinguished for certain may be about the same one.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final
from urllib.parse import unquote

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAMING: Final = {
    **dict.fromkeys(("id", "ids", "uuid", "uuids", "guid", "guids"), "id"),
    **dict.fromkeys(("path", "paths", "file", "files", "filename", "folder", "directory"), "path"),
    **dict.fromkeys(("uri", "uris", "url", "urls"), "uri"),
}
"""The last words of names whose values name objects, and the word that they are compared by."""
_FORMATS: Final = {"uuid": "id", **dict.fromkeys(("uri", "uri-reference", "iri", "iri-reference"), "uri")}
_USER: Final = "user_id"
_UUID: Final = re.compile(r"\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
_MAX_VALUES: Final = 1_000
"""The number of values that are compared: what a call with more of them names, as a long list does, is not certain."""


@dataclass(frozen=True, slots=True)
class NamedObjects:
    """The values of a call, and of its result, by which it can be distinguished from another call."""

    names: Mapping[str, frozenset[str]]
    """The values that name objects, by their canonical name: `task_id` for `taskId`, `task_ids` and the `id` of a `task`."""
    arguments: frozenset[str]
    """All texts and integers among the arguments: one of them may be an id under another name."""
    certain: bool = True
    """False if it has more values than are compared, or a path whose beginning is not known."""

    def are_others_than(self, later: NamedObjects) -> bool:
        """True if it is certain that this call was about other objects than a `later` one is."""
        if not (self.certain and later.certain) or self.names.keys().isdisjoint(later.names):
            return False
        mine, others = _union(self.names), _union(later.names)
        return not _meet(mine, others | later.arguments) and not _meet(others, self.arguments)


def named_objects(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], result: Any = None, *, without: Collection[str] = ()
) -> NamedObjects:
    """Return what names the objects of a call with the input `schema`, leaving out the arguments `without`."""
    declared = schema.get("properties")
    formats = {name: part.get("format") for name, part in declared.items() if isinstance(part, dict)} if declared else {}
    given = {name: value for name, value in arguments.items() if name not in without}
    values = [*islice(_leaves(given), _MAX_VALUES + 1)]
    returned = [*islice(_leaves(result), _MAX_VALUES + 1)]
    names: dict[str, set[str]] = {}
    for name, value in (*values, *returned):
        if (canonical := _name(name, formats.get(name))) is not None:
            names.setdefault(canonical, set()).add(_value(value))
    found = {name: frozenset(values) for name, values in names.items()}
    certain = max(len(values), len(returned)) <= _MAX_VALUES and not any(one.startswith("..") for one in _union(found))
    return NamedObjects(found, frozenset(_value(value) for _, value in values), certain)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str | int]]:
    """Yield the texts and integers in JSON with the names of their keys; an `id` has the name of the object that it is in."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key != _USER:
                yield from _leaves(part, f"{name.removesuffix('s')}_id" if key == "id" and name else key)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, name)
    elif isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        yield name, value


def _name(name: str, format_: Any) -> str | None:
    """Return the canonical name of what names an object; None for another value."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return None
    if (last := _NAMING.get(words[-1])) is not None:
        return "_".join([*words[:-1], last])
    return "_".join([*words, _FORMATS[format_]]) if isinstance(format_, str) and format_ in _FORMATS else None


def _value(value: str | int) -> str:
    """Return a value in the form in which it is compared: spellings that a server may take for the same are equal."""
    text = unicodedata.normalize("NFKC", str(value)).casefold().strip()
    if found := _UUID.fullmatch(text):
        return "".join(found.groups())
    if "/" not in text and "\\" not in text:
        return text.removeprefix("#")
    return posixpath.normpath(unquote(text).replace("\\", "/").removeprefix("file://"))


def _union(names: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*names.values())


def _meet(first: frozenset[str], second: frozenset[str]) -> bool:
    """True if two values are equal, or if one is a path that begins or ends with the other."""
    if not first.isdisjoint(second):
        return True
    paths = any("/" in one for one in first | second)
    return paths and any(_is_part(one, other) or _is_part(other, one) for one, other in product(first, second))


def _is_part(one: str, other: str) -> bool:
    return other.startswith(f"{one.removesuffix('/')}/") or other.endswith(f"/{one.removeprefix('/')}")
