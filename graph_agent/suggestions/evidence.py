"""The evidence of the record about the calls of each tool: counted while it is read, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import ZoneInfo

from graph_agent.models.sources import Source
from graph_agent.policy.amounts import is_number
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.syntax import Reads
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.cedar.values import Unconvertible, amount, convert, hosts
from graph_agent.suggestions.facts import FactEvidence
from graph_agent.suggestions.samples import OUTLIERS, Choices, Numbers, Users
from graph_agent.suggestions.seen import SeenCall, SeenCalls

Path = tuple[str, ...]

_NO_READS: Final = Reads(())

KEPT_DAYS: Final = 50_000
"""The users of a day whose calls are counted at the same time."""


@dataclass(frozen=True, slots=True)
class Part:
    """An argument of a tool, or a part of one, that conditions can name."""

    path: Path
    type: CedarType
    optional: tuple[Path, ...] = ()
    """The steps to it that a call may leave out."""

    @property
    def number(self) -> CedarType | None:
        """Its type if it is a number, or the alternative that is one, as of a `Decimal`."""
        return self.type.number


def parts_of(type_: CedarType, path: Path = (), optional: tuple[Path, ...] = ()) -> Iterator[Part]:
    """Yield the parts of a record."""
    for name, part, required in type_.fields:
        here = (*path, name)
        given = optional if required else (*optional, here)
        if part.kind is Kind.RECORD:
            yield from parts_of(part, here, given)
        else:
            yield Part(here, part, given)


def as_number(value: float | str) -> float:
    """Return a number of a call, also one that is written as a text."""
    return float(value) if isinstance(value, str) else value


def value_at(arguments: Any, path: Path) -> Any:
    """Return the value of a part; None if it is missing."""
    for name in path:
        if not isinstance(arguments, dict) or name not in arguments:
            return None
        arguments = arguments[name]
    return arguments


class ToolEvidence:
    """The calls of one tool."""

    def __init__(self, action: ToolAction, enough: int) -> None:
        self.action = action
        self.parts = list(parts_of(action.arguments))
        self.calls = 0
        self.users = Users()
        self.days = Users()
        self.hours: Counter[int] = Counter()
        self.users_of_hour = {hour: Users() for hour in range(24)}
        self.roles: Counter[frozenset[str]] = Counter()
        self.after: Counter[str] = Counter()
        """The tools that had succeeded before, each with the number of calls."""
        self.unreadable: Counter[Path] = Counter()
        """The values that conditions cannot read, such as too large numbers, by part."""
        self.given: Counter[Path] = Counter()
        """The calls that have a value, by part."""
        self.outside_messages = 0
        """The calls of clients that send no messages."""
        self.numbers: dict[Path, Numbers] = {}
        self.choices: dict[Path, Choices] = {}
        self.hosts: dict[Path, Choices] = {}
        self.lengths: dict[Path, Numbers] = {}
        self.per_message = Numbers()
        # A user who does much every day is an ordinary one.
        self.per_day = Numbers(alone=OUTLIERS)
        self.with_words = 0
        """The calls of decisions in which the user has written something."""
        self.said: dict[str, Users] = {}
        """By argument: the users of calls in which all its values stand in the user's words."""
        self.calls_said: Counter[str] = Counter()
        self.calls_sourced: Counter[str] = Counter()
        """By argument: the calls in which its values have a source."""
        self.sums: dict[str, Numbers] = {}
        """By argument: the sums of a user in a day."""
        self.enough = enough

    def add(self, call: SeenCall, hour: int, day: str) -> None:
        self.calls += 1
        self.users.add(call.user_id)
        self.outside_messages += not call.of_message
        self.days.add(day)
        self.hours[hour] += 1
        self.users_of_hour[hour].add(call.user_id)
        self.roles[frozenset(call.roles)] += 1
        self.after.update(call.succeeded | {one.tool_name for one in call.earlier if one.succeeded})
        key = f"{call.decision_id} {len(call.earlier)}"
        for part in self.parts:
            if (value := value_at(call.arguments, part.path)) is not None:
                self._add_value(part, value, call.user_id, key)
                self.given[part.path] += 1
        if self.action.writes and self.action.sourced and call.words.are_known:
            self._add_sources(call)

    @property
    def is_called_without_message(self) -> bool:
        """True if ordinary calls belong to no message: a limit for one message would ask about each of them."""
        return self.outside_messages > self.calls * OUTLIERS

    def _add_sources(self, call: SeenCall) -> None:
        self.with_words += not call.words.are_sent
        sources = call.sources
        for name in self.action.sourced:
            if labels := sources.labels(name):
                self.calls_sourced[name] += 1
                if labels == [Source.USER]:
                    self.calls_said[name] += 1
                    self.said.setdefault(name, Users()).add(call.user_id)

    def _add_value(self, part: Part, value: Any, user: str, key: str) -> None:
        kind = part.type.kind
        is_readable = _is_readable(part.type, value)
        self.unreadable[part.path] += not is_readable
        if part.number is not None and is_number(value):
            self.numbers.setdefault(part.path, Numbers()).add(as_number(value) if is_readable else math.inf, key, user)
        elif kind is Kind.BOOL and isinstance(value, bool):
            self._choices(self.choices, part).add("true" if value else "false", user)
        elif kind is Kind.STRING and isinstance(value, str) and not part.type.is_numeric:
            self._choices(self.choices, part).add(value, user)
        if (kind is Kind.SET or part.type.is_list) and isinstance(value, list):
            self.lengths.setdefault(part.path, Numbers()).add(len(value), key, user)
        if part.path[-1] in self.action.texts and len(part.path) == 1:
            found = hosts(value)
            for host in found or [""]:
                self._choices(self.hosts, part).add(host, user)

    def _choices(self, found: dict[Path, Choices], part: Part) -> Choices:
        return found.setdefault(part.path, Choices(self.enough))


def _is_readable(type_: CedarType, value: Any) -> bool:
    """True if conditions can read a value of this type. Of what no suggested rule reads it is not asked."""
    number = type_.number
    if number is None and type_.kind not in (Kind.STRING, Kind.SET):
        return True
    try:
        if number is not None:
            amount(number.kind, value, "value")
        else:
            convert(type_, value, _NO_READS, "", "value")
    except Unconvertible:
        return False
    return True


@dataclass
class _Totals:
    """The calls of a user in a day, by tool."""

    day: str
    calls: Counter[str] = field(default_factory=Counter)
    sums: Counter[tuple[str, str]] = field(default_factory=Counter)


class Evidence:
    """The calls of all tools, with those of each user in each day."""

    def __init__(self, actions: Iterable[ToolAction], time_zone: str, enough: int) -> None:
        """`enough` is the number of users below which a value says nothing."""
        actions = tuple(actions)
        self.tools: Mapping[str, ToolEvidence] = {one.name: ToolEvidence(one, enough) for one in actions}
        self.facts = FactEvidence(actions, enough)
        self.first: str | None = None
        self.last: str | None = None
        self.calls = 0
        self._zone = ZoneInfo(time_zone)
        self._totals: dict[str, _Totals] = {}

    def read(self, seen: SeenCalls, record: Mapping[str, Any]) -> None:
        """Add a decision, given as JSON. `seen` has read the earlier ones."""
        self._add(seen.of(record))
        for one in seen.reads:
            self.facts.add_read(one, record["header"]["context"]["user_id"])

    def _add(self, calls: Iterable[SeenCall]) -> None:
        in_message: Counter[str] = Counter()
        last: SeenCall | None = None
        for call in calls:
            if (tool := self.tools.get(call.tool_name)) is None:
                continue
            local = call.at.astimezone(self._zone)
            day = local.date().isoformat()
            self.first = self.first or day
            self.last = day
            self.calls += 1
            tool.add(call, local.hour, day)
            self.facts.add_call(call.tool_name, call.arguments, call.reads, call.user_id)
            in_message[call.tool_name] += 1
            self._count(call, tool, day)
            last = call
        if last is not None and last.of_message:
            for name, count in in_message.items():
                self.tools[name].per_message.add(count, last.decision_id, last.user_id)

    def end(self) -> None:
        """Count the last days."""
        for user in list(self._totals):
            self._close(user)

    def _count(self, call: SeenCall, tool: ToolEvidence, day: str) -> None:
        user = call.user_id
        if (totals := self._totals.get(user)) is not None and totals.day != day:
            self._close(user)
            totals = None
        if totals is None:
            if len(self._totals) >= KEPT_DAYS:
                self._close(next(iter(self._totals)))
            totals = self._totals[user] = _Totals(day)
        totals.calls[tool.action.name] += 1
        for name, _, required in tool.action.numbers:
            value: Any = call.arguments.get(name)
            if required and is_number(value):
                totals.sums[tool.action.name, name] += as_number(value)  # type: ignore[assignment]  # a Counter of any number

    def _close(self, user: str) -> None:
        totals = self._totals.pop(user)
        key = f"{user} {totals.day}"
        for name, count in totals.calls.items():
            self.tools[name].per_day.add(count, key, user)
        for (name, argument), total in totals.sums.items():
            self.tools[name].sums.setdefault(argument, Numbers(alone=OUTLIERS)).add(total, key, user)
