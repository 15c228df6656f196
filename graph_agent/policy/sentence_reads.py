"""The reads that the sentence of a call needs: the facts that it names, and the values that the call replaces.

They are reads of one call, filled by its arguments alone. What a read does not give is not said; it never refuses a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from graph_agent.errors import ConstitutionError
from graph_agent.models.facts import FactRead
from graph_agent.policy.fact_lines import read_of_call
from graph_agent.policy.facts import Fact
from graph_agent.policy.sentence import Place, Sentence

PLAIN_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\])*")


class ReadForSentence(NamedTuple):
    """One read, and what it is made for."""

    tool: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters of the read, each with the argument of the call that fills it."""
    said: tuple[tuple[str, str], ...] = ()
    """The places of the sentence that it fills, by their name, each with the path in its result."""
    replaced: tuple[tuple[str, str], ...] = ()
    """The arguments of the call that replace a value, each with the path of that value."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for _, path in (*self.said, *self.replaced)))

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the arguments of the read for a call with the `given` ones; None if the call leaves out one of them."""
        filled = {parameter: given.get(name) for parameter, name in self.parameters}
        return None if None in filled.values() else filled


class ReadValues(NamedTuple):
    """The values that were read for the sentence of a call; one that is not known is in neither."""

    said: Mapping[str, Any] = MappingProxyType({})
    """By the name of the place."""
    replaced: Mapping[str, Any] = MappingProxyType({})
    """By the argument that replaces it."""

    def with_read(self, wanted: ReadForSentence, read: FactRead) -> ReadValues:
        """Return these values with those of a read, which has them by their paths in its result."""
        known = {path: value for path in wanted.paths if (value := read.values.get(f"$.{path}")) is not None}
        said = {name: known[path] for name, path in wanted.said if path in known}
        replaced = {name: known[path] for name, path in wanted.replaced if path in known}
        return ReadValues({**self.said, **said}, {**self.replaced, **replaced})


NOTHING_READ: Final = ReadValues()


def reads_for_sentence(
    sentence: Sentence | None, replacing: ReadForSentence | None, facts: Mapping[str, Fact], line: int
) -> tuple[ReadForSentence, ...]:
    """Return the reads for the calls of a line. `replacing` is the one of what its calls replace.

    Raises `ConstitutionError`.
    """
    said: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[str, str]]] = {}
    for place in () if sentence is None else sentence.places:
        if place.is_fact:
            read = read_of_call(facts, place.root, "the sentence", line)
            said.setdefault((read.tool, read.parameters), []).append((place.text, _path(place, read.path, line)))
    found = {key: ReadForSentence(*key, said=tuple(dict.fromkeys(named))) for key, named in said.items()}
    if replacing is not None:
        key = replacing.tool, replacing.parameters
        found[key] = replacing._replace(said=found[key].said if key in found else ())
    return tuple(found.values())


def _path(place: Place, of_fact: str, line: int) -> str:
    separator = "." if place.path and not place.path.startswith("[") else ""
    whole = f"{of_fact}{separator}{place.path}".removeprefix("$").removeprefix(".")
    if not whole:
        raise ConstitutionError(f"'{{{place.text}}}' is a whole object: say a part of it, {{{place.root}.NAME}}", line)
    if not PLAIN_PATH.fullmatch(whole):
        raise ConstitutionError(f"a sentence says one value, and '{{{place.text}}}' is none", line)
    return whole
