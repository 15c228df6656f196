"""Fixture files: their format, and the error messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import IntentType
from graph_agent.validation.case_writer import dump_fixtures, fixture_from_records
from graph_agent.validation.fixtures import (
    Fixture,
    FixtureTask,
    FixtureTurn,
    load_fixtures,
    shipped_suite,
)
from tests.audit.builders import NOON, make_record


def write_cases(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cases.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_case_is_one_message_or_a_conversation_with_the_tasks_before_it(tmp_path: Path) -> None:
    file = write_cases(
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
    ("text", "message"),
    [
        ("", "is not a list of cases"),
        ("[]", "contains no cases"),
        ("a: b", "is not a list of cases"),
        ("- [", "is not YAML: line"),
        ("[" * 100_000, "is nested too deeply"),
        ("- {test_id: 2026-02-30, input: hi}", "is not YAML"),
        ("- {test_id: a, minutes_later: " + "9" * 5000 + "}", "is not YAML"),
        ("- {test_id: !!bool a, input: hi}", "is not YAML"),
        ("- {test_id: !!timestamp a, input: hi}", "is not YAML"),
        ('- {test_id: "\\UFFFFFFFF", input: hi}', "is not YAML"),
        ("- &a {test_id: a, input: hi, script: [*a]}", "is not YAML: line 1"),
        ("- &a0 [x]\n" + "".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)), "is not YAML: line 7"),
        ("- &a0 {k: v}\n" + "".join(f"- &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)), "is not YAML: line 1"),
        ("- {test_id: a, input: hi, minutes_later: 1.0e+12}", "case 1 (a): turns.0.minutes_later: "),
        ("- test_id: a\n  input: " + "x" * 5_000_000, "is larger than 4 MiB"),
        ("- {input: hi, expected_tool: x}", "case 1: test_id: Field required"),
        ("- {test_id: a, expected_tool: x}", "case 1 (a): "),
        ("- {test_id: a, input: hi}", "case 1 (a): the case has no expectation"),
        ("- {test_id: a, input: hi, expected_outcome: OOPS}", "case 1 (a): turns.0.expected_outcome: 'OOPS' is not an outcome"),
        ("- {test_id: a, input: hi, expected_intent: OOPS}", "case 1 (a): turns.0.expected_intent: "),
        ("- {test_id: a, input: hi, expected_tool: x, colour: red}", "case 1 (a): colour: "),
        ("- {test_id: a, input: hi, turns: [], expected_tool: x}", "a case has either an input or turns"),
        ("- {test_id: a, input: hi, expected_tool: x}\n- {test_id: a, input: hi, expected_tool: x}", "'a' occurs twice"),
    ],
)
def test_an_invalid_file_is_refused_with_the_number_of_the_case(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ServiceError) as refused:
        load_fixtures(write_cases(tmp_path, text))
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_aliases_stand_for_the_values_that_they_name(tmp_path: Path) -> None:
    text = """
- &one {test_id: one, input: hi, expected_tool: &tool add_task}
- {<<: *one, test_id: two}
- {test_id: three, input: hi, expected_tool: *tool}
"""
    found = load_fixtures(write_cases(tmp_path, text))
    assert [(one.test_id, one.turns[0].expected_tool) for one in found] == [
        (name, "add_task") for name in ("one", "two", "three")
    ]


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError) as refused:
        load_fixtures(tmp_path / "nothing.yaml")
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT


def test_the_shipped_suite_has_at_least_150_cases() -> None:
    assert len(load_fixtures(shipped_suite())) >= 150


def test_a_logged_conversation_becomes_a_case_that_can_be_loaded(tmp_path: Path) -> None:
    before, within = "2026-03-01T00:00:00Z", "2026-03-10T12:05:00Z"
    tasks = [
        {"id": "3", "description": "added here", "status": "pending", "created_at": within},
        {"id": "2", "description": "done here", "status": "completed", "created_at": before, "completed_at": within},
        {"id": "1", "description": "done before", "status": "completed", "created_at": before, "completed_at": before},
    ]
    first = make_record(
        1,
        message="show my tasks",
        intent=IntentType.LIST_TASKS,
        calls=({"tool_name": "list_tasks", "result": {"tasks": tasks}},),
    )
    second = make_record(2, message="hello", at=NOON.replace(hour=13), intent=None)
    fixture = fixture_from_records([first, second], "from-the-log")
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
    assert load_fixtures(write_cases(tmp_path, dump_fixtures([fixture]))) == [fixture]
