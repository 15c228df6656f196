"""The evidence about facts: what reads said about the object of a change, before it was made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from graph_agent.policy.cedar.schema import CEDAR_WORDS, ToolAction
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.facts import RESERVED
from graph_agent.suggestions.recorded_reads import SeenRead
from graph_agent.suggestions.samples import Choices, Users

Steps = tuple[str, ...]

MAX_FIELDS: Final = 60
"""The fields of a result that are looked at."""
_DEPTH: Final = 2
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOOL = re.compile(r"[A-Za-z0-9_.-]+")
_VERB = re.compile(r"(?:get|read|find|show|fetch|load|lookup|look_up|check)_(?=.)")
_OBJECTS: Final = (Kind.STRING, Kind.LONG)


class ReadPath(NamedTuple):
    """A read that is filled from an argument of a call."""

    tool: str
    parameter: str
    argument: str

    @property
    def fact(self) -> str:
        """The name of the fact: `order` for `get_order`."""
        name = re.sub(r"[^A-Za-z0-9_]", "_", _VERB.sub("", self.tool))
        return name if _NAME.fullmatch(name) and name not in RESERVED | CEDAR_WORDS else f"fact_{name}"

    @property
    def declaration(self) -> str:
        """The declaration of the fact."""
        tool = self.tool if _TOOL.fullmatch(self.tool) else f"'{self.tool}'"
        return f"{tool}({self.parameter} = arguments.{self.argument})"


@dataclass
class _Known:
    """The calls before which an object was read."""

    calls: int = 0
    users: Users = field(default_factory=Users)
    values: dict[Steps, Choices] = field(default_factory=dict)


class FactEvidence:
    """The reads about the object of each call of a tool that changes something."""

    def __init__(self, actions: Iterable[ToolAction], enough: int) -> None:
        self._actions = {one.name: one for one in actions}
        self._enough = enough
        self._reads = {name: tuple(_parameter(one)) for name, one in self._actions.items() if _may_be_read(one)}
        self._known: dict[str, dict[ReadPath, _Known]] = {}
        self._all: dict[str, dict[Steps, Choices]] = {}

    def add_read(self, read: SeenRead, user: str) -> None:
        """Count a result of a tool, whatever was done then."""
        self._add(self._all.setdefault(read.tool_name, {}), read.data, user)

    def add_call(self, tool_name: str, arguments: Mapping[str, Any], reads: Iterable[SeenRead], user: str) -> None:
        """Count a call with the reads that were made before it."""
        action = self._actions[tool_name]
        if not action.writes:
            return
        newest = {path: read for read in reads for path in self._paths(action, arguments, read)}
        for path, read in newest.items():
            known = self._known.setdefault(tool_name, {}).setdefault(path, _Known())
            known.calls += 1
            known.users.add(user)
            self._add(known.values, read.data, user)

    def about(self, tool_name: str) -> Iterator[tuple[ReadPath, int, int, Mapping[Steps, Choices]]]:
        """Yield the reads before the calls of a tool, the most frequent first: calls, users, and the values by field."""
        known = self._known.get(tool_name, {})
        for path, one in sorted(known.items(), key=lambda item: (-item[1].calls, item[0])):
            yield path, one.calls, len(one.users), one.values

    def is_always(self, tool_name: str, steps: Steps, values: Iterable[str], outliers: float) -> bool:
        """True if a field has these values in nearly all results of a tool, whatever was done then."""
        return (found := self._all.get(tool_name, {}).get(steps)) is None or found.share(list(values)) > 1 - outliers

    def _paths(self, action: ToolAction, arguments: Mapping[str, Any], read: SeenRead) -> Iterator[ReadPath]:
        for parameter in self._reads.get(read.tool_name, ()):
            wanted = read.arguments.get(parameter)
            for name, type_, required in action.arguments.fields:
                is_same = type(arguments.get(name)) is type(wanted) and arguments.get(name) == wanted
                if is_same and required and type_.kind in _OBJECTS and _NAME.fullmatch(name):
                    yield ReadPath(read.tool_name, parameter, name)

    def _add(self, found: dict[Steps, Choices], data: Any, user: str) -> None:
        for steps, value in _fields(data):
            if steps not in found and len(found) >= MAX_FIELDS:
                continue
            found.setdefault(steps, Choices(self._enough)).add(value, user)


def _may_be_read(action: ToolAction) -> bool:
    return not action.writes and action.gives_facts and "'" not in action.name


def _parameter(action: ToolAction) -> Iterator[str]:
    """Yield the parameter of a tool that needs one."""
    needed = [one for one in action.arguments.fields if one.required and one.name != action.bound_argument]
    if len(needed) == 1 and needed[0].type.kind in _OBJECTS and _NAME.fullmatch(needed[0].name):
        yield needed[0].name


def _fields(data: Any, steps: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Yield the texts and truth values in a result as they are written in Cedar's JSON, so that `true` is no text."""
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        if not _NAME.fullmatch(name):
            continue
        here = (*steps, name)
        if isinstance(value, bool):
            yield here, "true" if value else "false"
        elif isinstance(value, str):
            yield here, f"={value}"
        elif len(here) < _DEPTH:
            yield from _fields(value, here)
