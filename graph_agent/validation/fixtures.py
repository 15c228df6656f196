"""Fixtures: test cases, each with messages and the decisions that are expected.

A file is a YAML list of cases; a `Fixture` is one of them. A case is one message, or a conversation of several turns with the
tasks that exist before it:

    - test_id: create-simple
      input: add a task to call mom
      expected_intent: CREATE_TASK
      expected_tool: add_task
      expected_outcome: SUCCESS:TASK_COMPLETED

    - test_id: delete-confirmed
      tasks: [call mom, {description: buy milk, status: completed}]   # as the list shows them, newest first
      turns:
        - {input: delete the call mom task, expected_tool: delete_task, expected_outcome: SUCCESS:RESPONSE_GIVEN}
        - {input: "yes", minutes_later: 1, expected_intent: CONFIRM_YES, expected_outcome: SUCCESS:TASK_COMPLETED}
      expected_tasks: [{description: buy milk, status: completed}]

Fields that a turn leaves out are not checked. `expected_tool` is one tool (in addition only read-only tools may be called), a
list (exactly these calls, in order) or null (no call); `expected_outcome` is a complete outcome or a prefix of one. `script`
replaces the model by a list of answers, for behavior that no model shows on demand.

Four fields are about the text that the user reads: `reply_contains` and `reply_lacks` (a text or a list of texts; case is
ignored), `reply_equals` (the whole reply) and `reply_lines` (lines of the reply in this order, for lists and for several
results):

    - test_id: list-shows-the-change
      tasks: [buy milk, call mom]
      input: show my tasks and then mark the first one complete
      reply_lines: ["1. [x] buy milk", "2. [ ] call mom", "Marked 'buy milk' as done."]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, located_violation
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import DecisionRecord
from graph_agent.reply.text import visible

MAX_MINUTES = 10 * 366 * 24 * 60
"""Ten years: a clock that is set to much later has no date."""
MAX_VALUES = 1_000_000
"""Maximum number of values of one fixture file, with each alias counted as what it stands for."""
MAX_CHARACTERS = 4 * 1024 * 1024
"""Maximum size of one fixture file."""
_MAX_TURNS = 20
"""The number of turns in a case from the log; earlier turns of the conversation are left out."""


class FixtureTask(Frozen):
    """A task before or after the conversation. In a file, plain text means a pending task."""

    description: str = Field(min_length=1, max_length=1000)
    status: Literal["pending", "completed"] = "pending"

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_text(cls, data: Any) -> Any:
        return {"description": data} if isinstance(data, str) else data


class FixtureTurn(Frozen):
    """One message and the expectations of its decision. Only fields that are set are checked, also if set to None."""

    input: str
    minutes_later: float = Field(default=0, ge=0, le=MAX_MINUTES)
    """The time that the user waits before sending the message."""
    expected_intent: IntentType | None = None
    expected_tool: str | list[str] | None = None
    expected_outcome: str | None = None
    expected_decision: DecisionType | None = None
    reply_contains: str | list[str] | None = None
    """Text that the reply contains, ignoring case. A list means that it contains every one of them."""
    reply_equals: str | None = None
    """The whole reply."""
    reply_lacks: str | list[str] | None = None
    """Text that the reply does not contain, ignoring case. A list means that it contains none of them."""
    reply_lines: list[str] | None = None
    """Lines of the reply, in this order; there may be others between them."""

    @field_validator("expected_tool", mode="before")
    @classmethod
    def _accept_none_as_text(cls, value: Any) -> Any:
        return None if value in ("none", "None", []) else value

    @field_validator("expected_outcome")
    @classmethod
    def _check_outcome(cls, value: str | None) -> str | None:
        if value is not None and not any(outcome.value.startswith(value) for outcome in OutcomeCategory):
            raise ValueError(f"'{value}' is not an outcome, and no outcome starts with it")
        return value

    @property
    def expectations(self) -> frozenset[str]:
        """The names of the expectation fields that are set."""
        return frozenset(self.model_fields_set - {"input", "minutes_later"})


class Fixture(Frozen):
    """One case: the tasks before it, its turns, and the tasks expected after it."""

    test_id: str = Field(min_length=1, max_length=200)
    turns: list[FixtureTurn] = Field(min_length=1)
    tasks: list[FixtureTask] = Field(default_factory=list)
    expected_tasks: list[FixtureTask] | None = None
    script: list[dict[str, Any]] | None = None
    """The model's answers; each is an `LLMResponse`, or `{error: CODE}`. `$task1` in it is the id of the first of `tasks`."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_single_message(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "input" not in data:
            return data
        if "turns" in data:
            raise ValueError("a case has either an input or turns")
        turn_fields = FixtureTurn.model_fields.keys()
        turn = {name: value for name, value in data.items() if name in turn_fields}
        return {**{name: value for name, value in data.items() if name not in turn_fields}, "turns": [turn]}

    @model_validator(mode="after")
    def _check_expectations(self) -> Fixture:
        if self.expected_tasks is None and not any(turn.expectations for turn in self.turns):
            raise ValueError("the case has no expectation")
        return self


def load_fixtures(path: Path) -> list[Fixture]:
    """Load the cases of a file, or of every `.yaml` file in a folder, in order.

    Raises `ServiceError` INVALID_FORMAT, which names the file and the case.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    fixtures = [fixture for file in files for fixture in _load_file(file)]
    if not fixtures:
        raise _invalid(f"{path} contains no cases")
    seen: set[str] = set()
    for fixture in fixtures:
        if fixture.test_id in seen:
            raise _invalid(f"{path}: the test_id '{fixture.test_id}' occurs twice")
        seen.add(fixture.test_id)
    return fixtures


def shipped_suite() -> Path:
    """Return the folder of the cases that come with the package."""
    return Path(__file__).parent / "suite"


class _Loader(yaml.SafeLoader):
    """A loader that refuses aliases which stand for more than `MAX_VALUES` values, or for a value that they are in."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not is_alias:
            match node:
                case yaml.MappingNode():
                    parts = [part for pair in node.value for part in pair]
                case yaml.SequenceNode():
                    parts = node.value
                case _:
                    parts = []
            self._sizes[node] = 1 + sum(self._sizes[part] for part in parts)
        # The node of an alias has no size before it is complete.
        if self._sizes.get(node, MAX_VALUES + 1) > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem="the aliases stand for too many values", problem_mark=node.start_mark)
        return node


class _Dumper(yaml.SafeDumper):
    """A dumper that escapes a text with hidden characters, and writes any other text as it is."""

    def analyze_scalar(self, scalar: str) -> Any:
        # Called before each text is written. YAML itself calls bidi controls printable.
        self.allow_unicode = visible(scalar) == scalar
        return super().analyze_scalar(scalar)


def dump_fixtures(fixtures: Sequence[Fixture]) -> str:
    """Return the cases as YAML that `load_fixtures` reads."""
    return yaml.dump([_to_yaml_value(fixture) for fixture in fixtures], Dumper=_Dumper, sort_keys=False, width=120)


def fixture_from_records(records: Sequence[DecisionRecord], test_id: str | None = None) -> Fixture:
    """Create a case from a logged conversation: its turns, oldest first, each of which expects the recorded decision.

    Its `tasks` are those of the first tool result with a list of tasks, except for the ones created during the conversation.
    """
    turns = []
    previous_end = None
    for record in records:
        decision = record.decision
        waited = 0.0 if previous_end is None else (record.header.started_at - previous_end).total_seconds() / 60
        later: dict[str, Any] = {"minutes_later": round(waited, 2)} if waited >= 1 else {}
        calls = [invocation.tool_name for invocation in record.invocations]
        turns.append(
            FixtureTurn(
                input=record.header.context.message,
                **later,
                expected_intent=decision.intent.intent_type if decision.intent else None,
                expected_tool=calls[0] if len(calls) == 1 else calls or None,
                expected_outcome=decision.outcome_category.value if decision.outcome_category else None,
            )
        )
        previous_end = record.ended_at
    return Fixture(test_id=test_id or f"decision-{records[-1].header.decision_id}", turns=turns, tasks=_tasks_before(records))


async def fixture_from_log(
    log: LogQueryService, decision_id: str, *, test_id: str | None = None, alone: bool = False, user_id: str | None = None
) -> Fixture:
    """Create a case from a decision and, unless `alone`, the earlier turns of its conversation.

    Raises `ServiceError` DECISION_NOT_FOUND, also if the turn is still running, or if `user_id` is given and is not its user.
    """
    record = (await log.get_decision_trace(decision_id, user_id=user_id)).record
    if record is None:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The decision is still open.")
    earlier: list[DecisionRecord | None] = []
    if not alone:
        context = record.header.context
        filters = DecisionFilter.of(
            conversation_id=context.conversation_id, user_id=context.user_id, until=record.header.started_at
        )
        before = (await log.query_decisions(filters, limit=_MAX_TURNS - 1)).items
        earlier = [(await log.get_decision_trace(row.decision_id)).record for row in reversed(before)]
    return fixture_from_records([*(one for one in earlier if one is not None), record], test_id)


def _load_file(file: Path) -> list[Fixture]:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_CHARACTERS + 1)
        if len(text) > MAX_CHARACTERS:
            raise _invalid(f"{file} is larger than {MAX_CHARACTERS // 1024 // 1024} MiB")
        value = yaml.load(text, _Loader)
    except (OSError, UnicodeDecodeError):
        raise _invalid(f"{file} cannot be read") from None
    except RecursionError:
        raise _invalid(f"{file} is nested too deeply") from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, ValueError) as exc:
        # PyYAML lets the errors of Python's own conversions pass, as for the date 2026-02-30.
        mark = getattr(exc, "problem_mark", None)
        raise _invalid(f"{file} is not YAML{f': line {mark.line + 1}' if mark else ''}") from None
    if not isinstance(value, list):
        raise _invalid(f"{file} is not a list of cases")
    return [_parse_case(file, number, case) for number, case in enumerate(value, start=1)]


def _parse_case(file: Path, number: int, value: Any) -> Fixture:
    try:
        return Fixture.model_validate(value)
    except ValidationError as exc:
        name = value.get("test_id") if isinstance(value, dict) else None
        raise _invalid(f"{file}: case {number}{f' ({name})' if name else ''}: {located_violation(exc)}") from None


def _tasks_before(records: Sequence[DecisionRecord]) -> list[FixtureTask]:
    started = records[0].header.started_at.isoformat()
    for invocation in (invocation for record in records for invocation in record.invocations):
        listed = invocation.result.get("tasks") if isinstance(invocation.result, dict) else None
        if isinstance(listed, list):
            return list(_tasks_at(started, listed))
    return []


def _tasks_at(time: str, listed: list[Any]) -> Iterable[FixtureTask]:
    """Yield the tasks of a listing as they were at an earlier time; ISO 8601 texts in UTC sort like times."""
    for task in listed:
        if not isinstance(task, dict) or not isinstance(task.get("description"), str) or not task["description"]:
            continue
        if str(task.get("created_at") or "") >= time:
            continue
        done = task.get("status") == "completed" and str(task.get("completed_at") or "") < time
        yield FixtureTask(description=task["description"], status="completed" if done else "pending")


def _to_yaml_value(fixture: Fixture) -> dict[str, Any]:
    value = fixture.model_dump(mode="json", exclude_unset=True)
    tasks = [task.description if task.status == "pending" else task.to_json() for task in fixture.tasks]
    return {
        "test_id": fixture.test_id,
        **({"tasks": tasks} if tasks else {}),
        **(value["turns"][0] if len(fixture.turns) == 1 else {"turns": value["turns"]}),
        **{name: value[name] for name in ("expected_tasks", "script") if value.get(name) is not None},
    }


def _invalid(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.INVALID_FORMAT, text)
