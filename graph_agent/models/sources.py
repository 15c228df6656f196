"""The sources of a call's arguments, which conditions may read: the user's words, results of tools, or the model alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from operator import not_
from typing import Any, Final, NamedTuple

from pydantic import Field

from graph_agent.models.base import Frozen
from graph_agent.models.tools import ToolResult


class Source(StrEnum):
    """The place where a value was found."""

    USER = "user"
    """In the words of the user in this conversation."""
    TRUSTED = "trusted"
    """In a result of a tool with `(trusted results)`."""
    UNTRUSTED = "untrusted"
    """In another result, which may be the text of anybody."""
    MODEL = "model"
    """Nowhere."""


class FoundSource(Frozen):
    """The source of some values of an argument."""

    source: Source
    # Left out of the JSON for the user and the model, and for the first value.
    tool: str | None = Field(default=None, exclude_if=not_)
    """The tool in whose result the value stands; None for a text of the model itself."""
    item: int = Field(default=0, ge=0, exclude_if=not_)
    """The position of the first such value in the argument; 0 for one that is no list."""


class CallSources(Frozen):
    """The sources of one call. No text of a result or of the user is kept."""

    arguments: dict[str, list[FoundSource]] = Field(default_factory=dict)
    """By argument. A switch and a choice of the schema have no source."""
    # Left out of the JSON of most calls.
    parts: dict[str, list[FoundSource]] = Field(default_factory=dict, exclude_if=not_)
    """The sources of the parts of given arguments that conditions name, by their path such as `$.payments[*].card`."""
    after: str | None = Field(default=None, exclude_if=not_)
    """The first tool with an untrusted result before this call in the conversation, or in its batch."""

    @property
    def tainted(self) -> bool:
        return self.after is not None

    def labels(self, argument: str) -> list[Source]:
        """Return the sources of an argument, sorted."""
        return sorted({one.source for one in self.arguments.get(argument, ())})

    def labels_of_part(self, argument: str, path: str) -> list[Source]:
        """Return the sources of a part of an argument, sorted: those of the whole, if nothing was looked for in the part."""
        found = self.parts.get(path)
        return self.labels(argument) if found is None else sorted({one.source for one in found})

    @property
    def all_labels(self) -> list[Source]:
        """The sources of all arguments, sorted."""
        return union_of(self.labels(name) for name in self.arguments)


class BatchSources(Frozen):
    """The sources of the calls of one batch, in its order: one recorded answer, which a replay reads."""

    calls: list[CallSources]


class ReadCall(NamedTuple):
    """A call that was sent, or whose object was shown, with what the model may have read of it."""

    tool_name: str
    arguments: Mapping[str, Any]
    result: ToolResult
    agreed: bool = False
    """True if a yes of the user, or a line of a mandate, has covered the call."""


class EarlierCalls(NamedTuple):
    """The calls of the earlier turns of a conversation."""

    results: Sequence[ReadCall] = ()
    """The newest ones, oldest first."""
    tools: Sequence[str] = ()
    """The tools of all calls that were sent, sorted; also of calls whose results are not kept any more."""
    definitions: Sequence[str] = ()
    """The digests of the definitions of tools under which the turns ran."""


class CallsAround(NamedTuple):
    """The calls of a conversation, in view of a decision in it."""

    before: Sequence[ReadCall]
    """The calls of the turns that began before the decision."""
    since: Sequence[ReadCall]
    """The calls of the decision and of later turns, oldest first."""
    is_whole: bool
    """False if a result from before is not kept any more, or is not searched."""


NO_CALLS: Final = EarlierCalls()


def union_of(labels: Iterable[Iterable[Source]]) -> list[Source]:
    return sorted({label for one in labels for label in one})
