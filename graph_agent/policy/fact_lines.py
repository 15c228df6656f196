"""The section `## Facts` of the constitution, one line for each fact that the runtime reads, and the markers that name them.

The model does not see the section. `(undone by ...)` and `(done if ...)` name facts; what they read is resolved here, so that a
mistake is found in the line that has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from graph_agent.errors import ConstitutionError
from graph_agent.policy.fact_errors import FactError
from graph_agent.policy.facts import ARGUMENTS, Fact, FactKind, ordered, parse_fact

FACTS_SECTION: Final = "## Facts"
NO_FACTS: Final[Mapping[str, Fact]] = MappingProxyType({})

_LINE = re.compile(r"- (?P<name>[A-Za-z_][A-Za-z0-9_]{0,127}): (?P<text>\S.*)")
_LATIN = re.compile(r"[ -~À-ɏ…]*")


class ReadOfCall(NamedTuple):
    """A read that the arguments of a call fill alone, and the path to one of its facts."""

    tool: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters of the read, each with the argument that fills it."""
    path: str
    """The path in the result, which begins with `$`."""


def read_facts(lines: Iterable[tuple[int, str]]) -> Mapping[str, Fact]:
    """Return the facts that the numbered lines of the section declare, by name. Raises `ConstitutionError`."""
    found: dict[str, Fact] = {}
    for number, line in lines:
        match = _LINE.fullmatch(line.rstrip())
        if match is None or not _LATIN.fullmatch(line):
            forms = "TOOL(PARAMETER = arguments.NAME), last TOOL, or FACT $PATH"
            raise ConstitutionError(f"expected a fact, '- name: {forms}'", number)
        name = match["name"]
        if name in found:
            raise ConstitutionError(f"the fact '{name}' is declared twice", number)
        try:
            found[name] = parse_fact(name, match["text"], number)
        except FactError as exc:
            raise ConstitutionError(str(exc), number) from None
    try:
        ordered(found, found)
    except FactError as exc:
        raise ConstitutionError(str(exc), found[exc.fact].line if exc.fact in found else None) from None
    for fact in found.values():
        root = fact
        while root.of in found:
            root = found[root.of]
        if root.kind is FactKind.LAST and fact.compared:
            raise ConstitutionError(f"'{root.name}' is not read for one call: no path in it compares arguments", fact.line)
        if root.kind is FactKind.PRODUCT and root is not fact:
            raise ConstitutionError(f"'{root.name}' is a number, and has no parts", fact.line)
    return found


def read_of_call(facts: Mapping[str, Fact], name: str, marker: str, line: int) -> ReadOfCall:
    """Return the read of the fact that a marker names. Raises `ConstitutionError` with the line of the marker."""
    if (fact := facts.get(name)) is None:
        raise ConstitutionError(f"{marker} names the fact '{name}', which no line of '{FACTS_SECTION}' declares", line)
    paths: list[str] = []
    while fact.kind is FactKind.PART and fact.of in facts:
        paths.append(fact.path)
        fact = facts[fact.of]
        if fact.is_set:
            raise ConstitutionError(f"{marker} names '{name}', a part of several values: give its read one path", line)
    paths.append(fact.path)
    if fact.kind is not FactKind.READ or fact.of_each or facts[name].fold or fact.fold:
        raise ConstitutionError(f"{marker} names '{name}', and that is not what one read of a call finds", line)
    filled = [(parameter, source.steps[0]) for parameter, source in fact.parameters if source.root == ARGUMENTS]
    if len(filled) != len(fact.parameters) or any(len(source.steps) > 1 for _, source in fact.parameters):
        raise ConstitutionError(f"{marker} names '{name}', whose read needs more than arguments of the call", line)
    return ReadOfCall(fact.tools[0], tuple(filled), "$" + "".join(one.removeprefix("$") for one in reversed(paths)))
