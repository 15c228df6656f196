"""Fixture files: what they may say, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent.validation.fixtures import (
    Fixture,
    FixtureTask,
    FixtureTurn,
    fixture_of,
    fixtures_yaml,
    load_fixtures,
    shipped_suite,
)
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import IntentType
from tests.audit.made import NOON, made


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cases.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_case_is_one_message_or_a_conversation_with_the_tasks_it_starts_from(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
- test_id: one
  input: add a task to call mom
  expected_intent: CREATE_TASK
  expected_tool: add_task
  expected_outcome: SUCCESS:TASK_COMPLETED
- test_id: many
  tasks: [call mom, {description: buy milk, status: completed}]
  turns:
    - {input: hi, expected_tool: null}
    - {input: "yes", minutes_later: 6, expected_tool: [list_tasks, delete_task], expected_outcome: AMBIGUITY}
  expected_tasks: []
""",
    )
    one, many = load_fixtures(file)
    assert one == Fixture(
        test_id="one",
        turns=[
            FixtureTurn(
                input="add a task to call mom",
                expected_intent=IntentType.CREATE_TASK,
                expected_tool="add_task",
                expected_outcome="SUCCESS:TASK_COMPLETED",
            )
        ],
    )
    assert one.turns[0].expectations == {"expected_intent", "expected_tool", "expected_outcome"}
    assert many.tasks == [FixtureTask(description="call mom"), FixtureTask(description="buy milk", status="completed")]
    assert [turn.expectations for turn in many.turns] == [{"expected_tool"}, {"expected_tool", "expected_outcome"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a list of cases"),
        ("[]", "holds no cases"),
        ("a: b", "is not a list of cases"),
        ("- [", "is not YAML: line"),
        ("- {input: hi, expected_tool: x}", "case 1: test_id: Field required"),
        ("- {test_id: a, expected_tool: x}", "case 1 (a): "),
        ("- {test_id: a, input: hi}", "case 1 (a): nothing is expected of it"),
        ("- {test_id: a, input: hi, expected_outcome: OOPS}", "case 1 (a): turns.0.expected_outcome: no outcome is or begins"),
        ("- {test_id: a, input: hi, expected_intent: OOPS}", "case 1 (a): turns.0.expected_intent: "),
        ("- {test_id: a, input: hi, expected_tool: x, colour: red}", "case 1 (a): colour: "),
        ("- {test_id: a, input: hi, turns: [], expected_tool: x}", "a case has either an input or turns"),
        ("- {test_id: a, input: hi, expected_tool: x}\n- {test_id: a, input: hi, expected_tool: x}", "'a' is there twice"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ServiceError) as refused:
        load_fixtures(written(tmp_path, text))
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT
    assert told in refused.value.message
    assert "\n" not in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError) as refused:
        load_fixtures(tmp_path / "nothing.yaml")
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT


def test_the_shipped_suite_has_at_least_150_cases() -> None:
    assert len(load_fixtures(shipped_suite())) >= 150


def test_a_logged_conversation_becomes_a_case_that_can_be_read_again(tmp_path: Path) -> None:
    before, within = "2026-03-01T00:00:00Z", "2026-03-10T12:05:00Z"
    tasks = [
        {"id": "3", "description": "added here", "status": "pending", "created_at": within},
        {"id": "2", "description": "done here", "status": "completed", "created_at": before, "completed_at": within},
        {"id": "1", "description": "done before", "status": "completed", "created_at": before, "completed_at": before},
    ]
    first = made(
        1,
        message="show my tasks",
        intent=IntentType.LIST_TASKS,
        calls=({"tool_name": "list_tasks", "result": {"tasks": tasks}},),
    )
    second = made(2, message="hello", at=NOON.replace(hour=13), intent=None)
    fixture = fixture_of([first, second], "from-the-log")
    assert fixture.tasks == [FixtureTask(description="done here"), FixtureTask(description="done before", status="completed")]
    assert fixture.turns == [
        FixtureTurn(
            input="show my tasks",
            expected_intent=IntentType.LIST_TASKS,
            expected_tool="list_tasks",
            expected_outcome="SUCCESS:TASK_COMPLETED",
        ),
        FixtureTurn(
            input="hello",
            minutes_later=59.0,
            expected_intent=None,
            expected_tool=None,
            expected_outcome="SUCCESS:TASK_COMPLETED",
        ),
    ]
    assert load_fixtures(written(tmp_path, fixtures_yaml([fixture]))) == [fixture]
