"""The objects that a decision has read before a call, as far as a fact could have them: from results, and from reads for facts.

A result counts only within its decision, and until a change of the same server: later it may no longer be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from graph_agent.models.facts import FactRead
from graph_agent.models.record import EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.result_data import whole_data
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.fact_errors import UnreadableError


@dataclass(frozen=True, slots=True)
class SeenRead:
    """A read of a tool whose results may give facts."""

    tool_name: str
    arguments: Mapping[str, Any]
    data: Any


class RecordedReads:
    """The reads of one decision."""

    def __init__(self, actions: Mapping[str, ToolAction], entries: Iterable[Mapping[str, Any]]) -> None:
        self._actions = actions
        self._reads: tuple[SeenRead, ...] = tuple(
            SeenRead(read.tool, read.arguments, value)
            for read in _fact_reads(entries)
            if self._gives_facts(read.tool)
            for name, value in read.values.items()
            # A part that an undo restores is no object of the read.
            if isinstance(value, dict) and not name.startswith("$")
        )

    @property
    def all(self) -> tuple[SeenRead, ...]:
        """The reads that still count, oldest first."""
        return self._reads

    def add(self, call: Mapping[str, Any]) -> SeenRead | None:
        """Add a call that was sent, given as JSON. Return it if it has read an object."""
        name = call["tool_name"]
        if not self._gives_facts(name):
            server = action.server if (action := self._actions.get(name)) is not None else None
            self._reads = tuple(one for one in self._reads if server not in (None, self._actions[one.tool_name].server))
            return None
        if not call["success"]:
            return None
        try:
            data = whole_data(ToolResult(success=True, data=call.get("result"), content=call.get("content", [])))
        except (UnreadableError, ValidationError):
            return None
        read = SeenRead(name, call["parameters"], data)
        self._reads = (*self._reads, read)
        return read

    def _gives_facts(self, tool_name: str) -> bool:
        action = self._actions.get(tool_name)
        return action is not None and action.gives_facts and not action.writes


def _fact_reads(entries: Iterable[Mapping[str, Any]]) -> Iterator[FactRead]:
    for entry in entries:
        if entry["kind"] == EntryKind.READ and isinstance(entry["result"], dict) and "values" in entry["result"]:
            try:
                yield FactRead.recorded(entry["result"])
            except ValidationError:
                continue
