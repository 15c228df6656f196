"""The conditions file, `policy.cedar`, and the words of its verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from graph_agent.errors import ConfigurationError
from graph_agent.models.facts import Facts
from graph_agent.models.record import ShadowVerdict
from graph_agent.models.sources import CallSources
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.constitution import MAX_CHARACTERS, read_limited
from graph_agent.policy.past_call import PastCall

EVERYBODY: Final = 1_000_000
"""The number of approvals in each role by which it is decided whether a call can wait for them. Sums of it do not overflow."""


class Verdict(StrEnum):
    """The verdict of the rules on a call."""

    RUNS = "runs"
    ASKS = "asks"
    """Only with the user's yes."""
    WAITS = "waits"
    """Only with the approval of other people."""
    REFUSED = "refused"

    def is_stricter_than(self, other: Verdict) -> bool:
        order = list(Verdict)
        return order.index(self) > order.index(other)


class NeededApproval(NamedTuple):
    """The approval of other people that a call needs."""

    roles: tuple[str, ...]
    """The roles whose approvals the conditions count that deny the call without them, sorted."""
    rules: tuple[str, ...]
    """The names of these conditions: clauses for the user."""


class ConditionsVerdict(NamedTuple):
    """The verdict of the conditions on a call, with the names of those that decided: clauses for the user."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    facts: str = ""
    """The facts that these conditions read, in a server's words: quoted, and cut."""
    needs: NeededApproval | None = None
    """For WAITS, and for ASKS if the call waits for an approval after the yes."""
    shadow: tuple[ShadowVerdict, ...] = ()
    """The verdicts of the rules in the shadow that would have been stricter."""

    @property
    def names(self) -> str:
        """The names of the conditions, for the model: it reads no value of a fact, which may be anybody's words."""
        return "; ".join(self.reasons)

    @property
    def reason(self) -> str:
        """The names of the conditions with the facts that they read, for the user and the record."""
        return f"{self.names}{self.facts and f' ({self.facts})'}"

    def outside_message(self, limits: tuple[str, ...]) -> ConditionsVerdict:
        """Return the verdict on a call of no message; `limits` are what would count it for one.

        Each such call is the only one of its message, so that no limit would ever be reached: the user decides instead.
        """
        return ConditionsVerdict(Verdict.ASKS, limits) if self.verdict is Verdict.RUNS and limits else self

    def permits(self, *, confirmed: bool) -> bool:
        """True if the call may be sent now."""
        return self.verdict is Verdict.RUNS or (self.verdict is Verdict.ASKS and confirmed and self.needs is None)


@dataclass(frozen=True, slots=True)
class Situation:
    """The circumstances of a call that are not in the call itself."""

    user_id: str
    roles: tuple[str, ...] = ()
    facts: Facts | None = None
    """None if no condition reads them."""
    earlier: Sequence[PastCall] = ()
    """The calls of this message that were judged before."""
    of_message: bool = True
    """False for a call of a client that sends no messages: nothing can be counted for one."""
    sources: CallSources | None = None
    """None if no condition reads them."""
    results: CallFacts | None = None
    """The facts of the call from the results of tools. None if they were not read."""
    for_facts: bool = False
    """True for a read of the runtime that gives facts: the conditions that name facts do not judge it."""
    approvals: Mapping[str, int] = field(default_factory=dict)
    """The number of people who have approved the call, by the role in which they did; 0 for the roles that it does not have."""


class ConditionDescription(NamedTuple):
    """A condition of the file, for people."""

    name: str
    line: int
    number: int
    """Its place among the conditions of the file, from 0."""
    effect: str
    tools: tuple[str, ...]
    """The tools that it is about."""
    denies_by_like: bool
    """True if the call is refused because a text matches a pattern: another spelling of the text does not match."""
    denies_by_approvals: bool
    """True if the call may be refused because more people have approved it."""
    shadow: bool = False
    """True if it is in the shadow: it is judged, and decides nothing."""


def configured_roles(roles: Collection[str], example: str) -> str:
    """Return which roles conditions can name, for an error about another one; without any, how to set `example`."""
    has = f"has {', '.join(roles)}" if roles else f"names none: set it, such as groups={example}"
    return f"GRAPH_AGENT_ROLES {has}"


@dataclass(frozen=True, slots=True)
class ConditionsFile:
    """The text of `policy.cedar`, and the settings that belong to it."""

    text: str
    name: str = "policy.cedar"
    roles: tuple[str, ...] = ()
    """The roles that conditions may name."""
    time_zone: str = "UTC"
    """The time zone of `context.time`, and of the hours and days in which uses are counted."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """The server of each tool, for a record that does not have it."""

    @classmethod
    def load(cls, path: Path, roles: tuple[str, ...] = (), time_zone: str = "UTC") -> ConditionsFile:
        """Read the file at `path`. Raises `ConfigurationError`."""
        try:
            ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigurationError(f"there is no time zone '{time_zone}': use a name such as Europe/Berlin") from None
        text = read_limited("conditions file", path)
        if len(text) > MAX_CHARACTERS:
            raise ConfigurationError(f"the conditions file {path} has more than {MAX_CHARACTERS:,} characters")
        return cls(text, str(path), roles, time_zone)

    @classmethod
    def recorded(cls, value: Mapping[str, Any]) -> ConditionsFile:
        """Return the file of a record, from the JSON of the compiled conditions' `text`."""
        return cls(value["conditions"], roles=tuple(value["roles"]), time_zone=value["time_zone"])
