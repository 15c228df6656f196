"""Fixtures: what somebody says, and what must come of it.

A file is a YAML list of cases. A case is one message, or a conversation of several turns with the tasks it starts from:

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

What a turn leaves out is not checked. `expected_tool` is one tool (beside which only look-ups may be called), a list (exactly
these, in order) or null (none at all); `expected_outcome` is a whole outcome or its beginning. `script` plays the model: a
list of its answers, for what no model does on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import DecisionRecord

_EXPECTATIONS = frozenset({"expected_intent", "expected_tool", "expected_outcome", "expected_decision", "reply_contains"})


class FixtureTask(Frozen):
    """A task of the list at the beginning or at the end. Plain text in a file is a pending one."""

    description: str = Field(min_length=1, max_length=1000)
    status: Literal["pending", "completed"] = "pending"

    @model_validator(mode="before")
    @classmethod
    def _plain_text_is_a_pending_task(cls, data: Any) -> Any:
        return {"description": data} if isinstance(data, str) else data


class FixtureTurn(Frozen):
    """One message and what is expected of its decision. What is not set is not checked; None is an expectation."""

    input: str
    minutes_later: float = Field(default=0, ge=0)
    """How long the user waits before saying it."""
    expected_intent: IntentType | None = None
    expected_tool: str | list[str] | None = None
    expected_outcome: str | None = None
    expected_decision: DecisionType | None = None
    reply_contains: str | None = None

    @field_validator("expected_tool", mode="before")
    @classmethod
    def _none_may_be_written(cls, value: Any) -> Any:
        return None if value in ("none", "None", []) else value

    @field_validator("expected_outcome")
    @classmethod
    def _is_or_begins_an_outcome(cls, value: str | None) -> str | None:
        if value is not None and not any(outcome.value.startswith(value) for outcome in OutcomeCategory):
            raise ValueError(f"no outcome is or begins '{value}'")
        return value

    @property
    def expectations(self) -> frozenset[str]:
        """The names of the fields that are checked."""
        return _EXPECTATIONS & self.model_fields_set


class Fixture(Frozen):
    """One case."""

    test_id: str = Field(min_length=1, max_length=200)
    turns: list[FixtureTurn] = Field(min_length=1)
    tasks: list[FixtureTask] = Field(default_factory=list)
    expected_tasks: list[FixtureTask] | None = None
    script: list[dict[str, Any]] | None = None
    """The model's answers; each is an `LLMResponse`, or `{error: CODE}`. `$task1` in it is the id of the first of `tasks`."""

    @model_validator(mode="before")
    @classmethod
    def _one_message_is_one_turn(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "input" not in data:
            return data
        if "turns" in data:
            raise ValueError("a case has either an input or turns")
        own = FixtureTurn.model_fields.keys()
        turn = {name: value for name, value in data.items() if name in own}
        return {**{name: value for name, value in data.items() if name not in own}, "turns": [turn]}

    @model_validator(mode="after")
    def _expects_something(self) -> Fixture:
        if self.expected_tasks is None and not any(turn.expectations for turn in self.turns):
            raise ValueError("nothing is expected of it")
        return self


def load_fixtures(path: Path) -> list[Fixture]:
    """The cases of a file, or of every `.yaml` file of a folder, in order.

    Raises `ServiceError` INVALID_FORMAT, which names the file and the case.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    fixtures = [fixture for file in files for fixture in _of_file(file)]
    if not fixtures:
        raise _invalid(f"{path} holds no cases")
    seen: set[str] = set()
    for fixture in fixtures:
        if fixture.test_id in seen:
            raise _invalid(f"{path}: the test_id '{fixture.test_id}' is there twice")
        seen.add(fixture.test_id)
    return fixtures


def shipped_suite() -> Path:
    """The folder of the cases that come with the package."""
    return Path(__file__).parent / "suite"


def fixtures_yaml(fixtures: Sequence[Fixture]) -> str:
    """The cases as a file that `load_fixtures` reads."""
    return yaml.safe_dump([_written(fixture) for fixture in fixtures], sort_keys=False, allow_unicode=True, width=120)


def fixture_of(records: Sequence[DecisionRecord], test_id: str | None = None) -> Fixture:
    """A conversation from the log as a case: its turns, oldest first, each expecting what was decided then.

    The tasks it starts from are those that the first look-up showed and that were there before the conversation.
    """
    turns = []
    before = None
    for record in records:
        decision = record.decision
        waited = 0.0 if before is None else (record.header.started_at - before).total_seconds() / 60
        calls = _called(record)
        turns.append(
            FixtureTurn(
                input=record.header.context.message,
                **({"minutes_later": round(waited, 2)} if waited >= 1 else {}),
                expected_intent=decision.intent.intent_type if decision.intent else None,
                expected_tool=calls[0] if len(calls) == 1 else calls or None,
                expected_outcome=decision.outcome_category.value if decision.outcome_category else None,
            )
        )
        before = record.ended_at
    return Fixture(test_id=test_id or f"decision-{records[-1].header.decision_id}", turns=turns, tasks=_tasks_before(records))


def _of_file(file: Path) -> list[Fixture]:
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise _invalid(f"{file} cannot be read") from None
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        raise _invalid(f"{file} is not YAML{f': line {mark.line + 1}' if mark else ''}") from None
    if not isinstance(told, list):
        raise _invalid(f"{file} is not a list of cases")
    return [_case(file, number, value) for number, value in enumerate(told, start=1)]


def _case(file: Path, number: int, value: Any) -> Fixture:
    try:
        return Fixture.model_validate(value)
    except ValidationError as exc:
        slip = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in slip["loc"])
        name = value.get("test_id") if isinstance(value, dict) else None
        text = slip["msg"].removeprefix("Value error, ")
        raise _invalid(f"{file}: case {number}{f' ({name})' if name else ''}{f': {where}' if where else ''}: {text}") from None


def _called(record: DecisionRecord) -> list[str]:
    return [invocation.tool_name for invocation in record.invocations]


def _tasks_before(records: Sequence[DecisionRecord]) -> list[FixtureTask]:
    began = records[0].header.started_at.isoformat()
    for invocation in (invocation for record in records for invocation in record.invocations):
        shown = invocation.result.get("tasks") if isinstance(invocation.result, dict) else None
        if isinstance(shown, list):
            return list(_standing(shown, began))
    return []


def _standing(shown: list[Any], began: str) -> Iterable[FixtureTask]:
    for task in shown:
        if not isinstance(task, dict) or not isinstance(task.get("description"), str) or not task["description"]:
            continue
        if str(task.get("created_at") or "") >= began:
            continue
        done = task.get("status") == "completed" and str(task.get("completed_at") or "") < began
        yield FixtureTask(description=task["description"], status="completed" if done else "pending")


def _written(fixture: Fixture) -> dict[str, Any]:
    told = fixture.model_dump(mode="json", exclude_unset=True)
    tasks = [task.description if task.status == "pending" else task.to_json() for task in fixture.tasks]
    alone = len(fixture.turns) == 1
    return {
        "test_id": fixture.test_id,
        **({"tasks": tasks} if tasks else {}),
        **(told["turns"][0] if alone else {"turns": told["turns"]}),
        **{name: told[name] for name in ("expected_tasks", "script") if told.get(name) is not None},
    }


def _invalid(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.INVALID_FORMAT, text)
