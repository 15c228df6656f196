"""The file of conditions, `policy.cedar`, and how it decides a call. Cedar is loaded only if there is such a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from graph_agent.errors import ConfigurationError
from graph_agent.models.facts import Facts, PastUse, PastUses
from graph_agent.policy.cedar.schema import ToolAction

if TYPE_CHECKING:
    from graph_agent.policy.cedar.evaluation import CedarConditions

MAX_CHARACTERS = 256 * 1024


class Effect(StrEnum):
    """The decision of the conditions on a call."""

    RUNS = "runs"
    ASKS = "asks"
    """Only with the user's yes."""
    REFUSED = "refused"


class Ruling(NamedTuple):
    """The decision of the conditions on a call, with the names of the rules that decided: clauses for the user."""

    effect: Effect
    reasons: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        return "; ".join(self.reasons)

    def permits(self, *, confirmed: bool) -> bool:
        """True if the call may be sent now."""
        return self.effect is Effect.RUNS or (self.effect is Effect.ASKS and confirmed)


class Use(Protocol):
    """An earlier call of the same message."""

    @property
    def tool_name(self) -> str: ...

    @property
    def arguments(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Situation:
    """The circumstances of a call that are not in the call itself."""

    user_id: str
    roles: tuple[str, ...] = ()
    facts: Facts | None = None
    """None if no rule reads them."""
    earlier: Sequence[Use] = ()
    """The calls of this message that may have run, and those of this batch that will."""


class RuleDescription(NamedTuple):
    """A rule of the file, for people."""

    name: str
    line: int
    effect: str
    tools: tuple[str, ...]
    """The tools that it is about."""
    compares_text: bool
    """True if it uses `like`."""


class Conditions(Protocol):
    """The compiled rules of a file."""

    file: ConditionsFile
    text: str
    """Everything that the decisions depend on, as canonical JSON, for the record."""
    actions: Mapping[str, ToolAction]
    """The tools that the rules see, by name."""
    rules: Mapping[str, Any]
    """The rules as Cedar's syntax trees, for the analysis."""
    names: Mapping[str, str]
    """The name of each rule in reasons, by the same keys."""
    summed: Mapping[str, Mapping[str, Any]]
    """The arguments of each tool whose sums rules read."""
    reads_facts: bool
    reads_uses: bool
    """True if a rule reads `used.hour`, `used.day` or `called`: an earlier turn may decide."""

    def judge(self, tool_name: str, arguments: dict[str, Any], situation: Situation) -> Ruling:
        """Decide a call that everything else permits. A failure of the evaluation is a refusal."""
        ...

    def described(self) -> list[RuleDescription]: ...

    def require_valid(self) -> None:
        """Raise `ConfigurationError`, with the line, for the first rule that does not fit the tools."""
        ...

    def counts(self, tool_name: str) -> bool:
        """True if a rule reads how much the calls of this tool use in an hour or a day."""
        ...

    def use(self, tool_name: str, arguments: dict[str, Any], at: datetime) -> PastUse:
        """Return the amounts of a call. Raises `Unconvertible` for one whose sum rules read."""
        ...

    def facts(self, now: datetime, past: PastUses) -> Facts:
        """Return the facts at `now` after the uses since the day began."""
        ...

    def unknown_fact(self, facts: Facts | None) -> str | None:
        """Return what a rule reads and `facts` do not have: "used" or "called"."""
        ...


@dataclass(frozen=True, slots=True)
class ConditionsFile:
    """The text of `policy.cedar`, and the settings that belong to it."""

    text: str
    name: str = "policy.cedar"
    roles: tuple[str, ...] = ()
    """The roles that rules may name."""
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
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(MAX_CHARACTERS + 1)
        except OSError as exc:
            raise ConfigurationError(f"the policy {path} cannot be read") from exc
        except UnicodeDecodeError as exc:
            raise ConfigurationError(f"the policy {path} is not UTF-8 text") from exc
        if len(text) > MAX_CHARACTERS:
            raise ConfigurationError(f"the policy {path} has more than {MAX_CHARACTERS:,} characters")
        return cls(text, str(path), roles, time_zone)

    @classmethod
    def recorded(cls, value: Mapping[str, Any]) -> ConditionsFile:
        """Return the file of a record, from the JSON of `Conditions.text`."""
        return cls(value["rules"], roles=tuple(value["roles"]), time_zone=value["time_zone"])

    def compile(self, actions: Sequence[ToolAction], recorded: str | None = None) -> CedarConditions:
        """Return the rules for these tools. `recorded` is the text of a record that they are compiled from.

        Raises `ConfigurationError` if the rules cannot be read, or if the extra is not installed.
        """
        try:
            # Imported here, because the library is an extra, and most installations have no such file.
            from graph_agent.policy.cedar.evaluation import CedarConditions
        except ModuleNotFoundError as exc:
            raise ConfigurationError(
                f"the policy {self.name} needs the extra 'policy': pip install 'graph-agent[policy]'"
            ) from exc
        return CedarConditions(self, actions, recorded)
