"""Stops, by which an operator forbids calls until they are resumed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from graph_agent.models.base import Frozen, UtcDatetime


class StopScope(StrEnum):
    """The extent of a stop."""

    EVERYTHING = "everything"
    TOOL = "tool"
    USER = "user"
    SERVER = "server"


class Sending(NamedTuple):
    """A message that is about to be sent: a call of a tool, or, without one, a request to the model or the start of a turn."""

    user_id: str
    tool: str = ""
    server: str = ""
    changes: bool = False
    """True for a call that may change something."""
    asks: bool = False
    """True for a question about what a call has done: it changes nothing, and the operator needs its answer."""


class Stop(Frozen):
    """A stop. `number` counts the stops of a database from 1."""

    number: int
    scope: StopScope
    name: str = ""
    """The tool, the user or the server; empty if everything is stopped."""
    changes_only: bool = False
    """True if only calls that may change something are stopped."""
    say: str = ""
    """The text that users read. It is public, unlike the reason."""
    reason: str = ""
    by: str = ""
    """The operator, as the command or the caller says; empty for a row that was written by hand."""
    at: UtcDatetime | None = None
    ended_at: UtcDatetime | None = None
    ended_by: str = ""
    end_reason: str = ""

    def covers(self, sending: Sending) -> bool:
        """True if this must not be sent while the stop is open."""
        if (self.changes_only and not sending.changes) or (sending.asks and self.scope is not StopScope.SERVER):
            return False
        stopped = {StopScope.TOOL: sending.tool, StopScope.USER: sending.user_id, StopScope.SERVER: sending.server}
        return self.scope is StopScope.EVERYTHING or stopped[self.scope] == self.name

    @property
    def what(self) -> str:
        """The object of the sentence that says what is stopped."""
        only = "the changes of " if self.changes_only else ""
        return f"{only}everything" if self.scope is StopScope.EVERYTHING else f"{only}the {self.scope} '{self.name}'"


def find_stop(stops: Iterable[Stop], sending: Sending) -> Stop | None:
    """Return the first of these open stops that forbids to send something; None if none does."""
    return next((stop for stop in stops if stop.covers(sending)), None)
