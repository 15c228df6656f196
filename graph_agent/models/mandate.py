"""A mandate: one yes of a person, given before the calls are made, for a plan of at most a few lines.

A *plan* is what is asked about, a *mandate* is a plan with its yes, a *line* of it permits one tool, and a *draw* is one call
that ran under a line. Whether a call fits a line is decided in `graph_agent.policy.mandate`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from operator import not_
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.sources import CallSources

MAX_LINES: Final = 8
MAX_PLAN: Final = 4_000
"""The longest plan as JSON, in characters."""
MAX_TIMES: Final = 20
MAX_MINUTES: Final = 24 * 60
DAY: Final = 24 * 60
"""The minutes of a day."""
STANDING_MINUTES: Final = 30 * DAY
"""The time for which a standing plan is in force if its user chooses none."""
MAX_STANDING_MINUTES: Final = 90 * DAY
MAX_RUNS: Final = MAX_STANDING_MINUTES // DAY
_MAX_DIGITS: Final = 18
MANDATE_LIFETIME: Final = timedelta(hours=1)
"""The time for which a mandate is in force if its plan names none."""

Scalar = bool | int | float | str
JOB_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
JOB_NAME_RULE: Final = "is 1 to 64 letters and digits, with dots, underscores and hyphens between"


def _require_job_name(value: str) -> str:
    if value and not JOB_NAME.fullmatch(value):
        raise ValueError(f"the name {JOB_NAME_RULE}")
    return value


# The pattern is for clients: a violation of it would be reported as a regular expression.
JobName = Annotated[str, AfterValidator(_require_job_name), Field(json_schema_extra={"pattern": rf"^({JOB_NAME.pattern})?$"})]
"""The name of a job of a user: letters and digits, with dots, underscores and hyphens between; empty for none."""


class Form(StrEnum):
    """The form that a value from a result must have."""

    CODE = "code"
    """1 to 14 letters, digits, `-` and `_`, with a digit."""
    NUMBER = "number"
    """A number, up to `at_most` if that is given."""
    LINK = "link"
    """A link with a host that stands in the user's words."""
    ADDRESS = "address"
    """An e-mail address at a host that stands in the user's words."""


class _Bound(Frozen):
    # `is` and `from` are words of Python, and of the form that a model fills in.
    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True, strict=True)


class Is(_Bound, kw_only=False):
    """One of these values, each of an argument or of a leaf of it."""

    values: tuple[Scalar, ...] = Field(alias="is", min_length=1, max_length=20, strict=False)


class AtMost(_Bound, kw_only=False):
    """A number from 0 up to this one."""

    at_most: int | float = Field(ge=0)


class From(_Bound, kw_only=False):
    """A value that a result of a tool has brought after the yes, and that was in no result before it."""

    tool: str = Field(alias="from", min_length=1)
    form: Form | None = Field(default=None, exclude_if=not_, strict=False)
    at: str | None = Field(default=None, pattern=r"^\$(\.[A-Za-z_][A-Za-z0-9_-]*|\[\*\])+$", exclude_if=not_)
    """A path of the result such as `$.orders[*].id`: only the leaves at it count."""
    at_most: int | float | None = Field(default=None, ge=0, exclude_if=lambda value: value is None)
    """For the form `number`: the largest one."""

    @model_validator(mode="after")
    def _has_one_restriction(self) -> From:
        if self.form is not None and self.at is not None:
            raise ValueError("a value from a result has a form or a path, not both")
        if self.at_most is not None and self.form is not Form.NUMBER:
            raise ValueError("at_most goes with the form number")
        return self


class OwnText(_Bound):
    """A text of the model itself that is no copy of what others wrote."""

    own_text: Literal[True] = True


def _kind(bound: Any) -> str:
    """Return the tag of a bound, by the one key that each kind has."""
    if isinstance(bound, dict):
        return next((tag for key, tag in _TAGS.items() if key in bound), "")
    return type(bound).__name__


_TAGS: Final = {"from": "From", "tool": "From", "is": "Is", "values": "Is", "own_text": "OwnText", "at_most": "AtMost"}

Bound = Annotated[
    Annotated[Is, Tag("Is")]
    | Annotated[AtMost, Tag("AtMost")]
    | Annotated[From, Tag("From")]
    | Annotated[OwnText, Tag("OwnText")],
    Discriminator(
        _kind,
        custom_error_type="bound",
        custom_error_message="what an argument may be is one of is, at_most, from and own_text",
    ),
]


class Line(Frozen):
    """One line of a plan: calls of one tool whose arguments are within bounds."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Bound] = Field(default_factory=dict)
    """By argument. One that is not named must be absent, or null."""
    times: int = Field(default=1, ge=1, le=MAX_TIMES)
    sum: dict[str, Decimal] = Field(default_factory=dict, exclude_if=not_)
    """The most that all calls of the line have together in an argument that is a number."""

    @field_validator("sum")
    @classmethod
    def _sums_are_positive(cls, value: dict[str, Decimal]) -> dict[str, Decimal]:
        # A card shows all digits of a sum.
        if any(not limit.is_finite() or limit < 0 or abs(limit.adjusted()) >= _MAX_DIGITS for limit in value.values()):
            raise ValueError(f"a sum is a number from 0 on, with at most {_MAX_DIGITS} digits")
        return value

    @model_validator(mode="after")
    def _sums_are_of_bounded_numbers(self) -> Line:
        for name in self.sum:
            if not isinstance(self.arguments.get(name), AtMost | Is | From):
                raise ValueError(f"the sum of {name} needs a bound for {name}")
        return self

    @property
    def is_exact(self) -> bool:
        """True if each argument has exactly one value: the line permits one call, again and again."""
        return all(isinstance(bound, Is) and len(bound.values) == 1 for bound in self.arguments.values())


class PermittedLine(Frozen, kw_only=False):
    """The most that a line of a plan permits under the rules in force."""

    line: Line | None
    """The line with bounds that are as wide or narrower; None if no call of it ever runs."""
    never: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict, exclude_if=not_)
    """The values of arguments that were struck, by argument."""
    rule: str = Field(default="", exclude_if=not_)
    """The rule that refuses every call of a line that never runs, or lets each wait; empty if it is not one rule alone."""


class Plan(Frozen):
    """The lines and the time that a yes is asked for."""

    lines: tuple[Line, ...] = Field(min_length=1, max_length=MAX_LINES)
    minutes: int = Field(default=int(MANDATE_LIFETIME.total_seconds()) // 60, ge=1, le=MAX_STANDING_MINUTES)
    """The time for which it is in force after the yes."""
    job: JobName = Field(default="", exclude_if=not_)
    """The job of a standing plan, in whose runs it is in force; empty for a plan of one conversation."""
    runs: int = Field(default=1, ge=1, le=MAX_RUNS, exclude_if=lambda value: value == 1)
    """The number of runs of the job in each of which it permits its lines; at most one a day."""

    @model_validator(mode="after")
    def _has_at_most_one_run_a_day(self) -> Plan:
        if self.runs > 1 and not self.job:
            raise ValueError("only a plan for a job has runs")
        if self.runs > (most := most_runs(self.minutes)):
            raise ValueError(f"a plan has at most one run a day, here {most}")
        return self

    @model_validator(mode="after")
    def _lasts_longer_for_a_job_alone(self) -> Plan:
        if not self.job and self.minutes > MAX_MINUTES:
            raise ValueError(f"a plan is in force for at most {MAX_MINUTES} minutes")
        return self

    @model_validator(mode="after")
    def _can_be_shown(self) -> Plan:
        if len(canonical_json(self.to_json())) > MAX_PLAN:
            raise ValueError(f"a plan has at most {MAX_PLAN} characters")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over the lines and the time, in hex."""
        return digest(self.to_json())


def most_runs(minutes: int) -> int:
    """Return the most runs that a standing plan of this time has: one for each day that it begins."""
    return -(-minutes // DAY)


class PlanChoice(Frozen):
    """The part of a plan from the record that a person has chosen: all of it, or less."""

    lines: tuple[Line, ...] | None = Field(default=None, min_length=1, max_length=MAX_LINES)
    """Fewer or narrower lines; None for all of them."""
    minutes: int | None = Field(default=None, ge=1, le=MAX_STANDING_MINUTES)
    """The time; None for the usual one. Without a job only a shorter one."""
    job: JobName = ""
    """The job for which the plan is to stand; empty for one in the conversation of the decision."""
    runs: int | None = Field(default=None, ge=1, le=MAX_RUNS)
    """The number of runs of the job; None for one a day."""


class RecordedPlan(Frozen):
    """A plan that code has made from the changes of a decision, to do them again."""

    decision_id: str
    plan: Plan
    sources: tuple[CallSources, ...]
    """The sources of the values of each line, as the record of the decision has them."""
    left_out: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The sentences before the question about the changes that no line permits."""

    @model_validator(mode="after")
    def _has_sources_of_each_line(self) -> RecordedPlan:
        if len(self.sources) != len(self.plan.lines):
            raise ValueError("each line has its sources")
        return self


class MandateState(StrEnum):
    """OPEN, then exactly one of the others, for ever."""

    OPEN = "open"
    USED = "used"
    """Every line has been drawn as often as it permits; of a standing plan, in as many runs as it permits.

    A standing plan whose runs have all begun, but left something of a line, is open: each of them may still go on.
    """
    REVOKED = "revoked"
    EXPIRED = "expired"
    VOID = "void"
    """The rules, or the declaration of one of its tools, are no longer those under which the yes was asked for."""


class Mandate(Frozen):
    """A plan that a person has agreed to, in force for them in one conversation, or in the runs of one job."""

    id: str
    """The id of the question that was answered."""
    plan: Plan
    user_id: str
    conversation_id: str
    """The conversation of the yes; a standing plan is in force in those of its job."""
    decision_id: str
    """The decision of the yes: what was read in decisions before it was known when the plan was made."""
    asked_under: RulesDigests
    """The rules, and the definitions of its tools, under which the yes was asked for."""
    created_at: UtcDatetime
    until: UtcDatetime

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.plan.lines


class Covered(Frozen, kw_only=False):
    """The lines of a mandate that a call fits, by number from 1: what is known before one of them is drawn."""

    id: str
    lines: tuple[int, ...]


class WantedDraw(NamedTuple):
    """A call that is to be drawn from the first of some lines of a mandate that has room for it."""

    covered: Covered
    arguments: Mapping[str, Any]
    conversation_id: str
    """The conversation of the call, which is the run that a standing plan counts."""


class Draw(Frozen, kw_only=False):
    """The line of a mandate that a call was drawn from, in the commit that intends the call."""

    id: str
    line: int = Field(ge=1)
    """The number of the line, counted from 1."""
    drawn: int = Field(ge=1)
    """The number of the line's calls with this one; of a standing plan, in this run."""
    times: int = Field(ge=1)
    """The number of calls that the line permits, or permits in each run."""
    run: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)
    """The number of runs that have drawn from a standing plan, with this one; None for a plan of one conversation."""


class MandateView(Frozen):
    """A mandate with its state and what was drawn from it, for its user and for operators."""

    mandate: Mandate
    state: MandateState
    drawn: tuple[int, ...]
    """The number of calls that were drawn from each line; of a standing plan, in all its runs."""
    runs: int = Field(default=0, exclude_if=not_)
    """The number of runs that have drawn from a standing plan; 0 for a plan of one conversation."""
    ended_at: UtcDatetime | None = None
    ended_by: str = ""
