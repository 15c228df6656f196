"""Validation on the real engine and task server: the shipped suite passes, and unmet expectations are reported."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.ports import LLMAdapter
from graph_agent.task_server.server import build_task_server
from graph_agent.task_server.tools import CaseTasks
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.validation.fixtures import Fixture, shipped_suite
from graph_agent.validation.runner import EngineRunner
from graph_agent.validation.service import FixtureResult, ValidationService
from tests.audit.builders import stored_reports

CONSTITUTION = (Path(__file__).parents[2] / "constitution.md").read_text(encoding="utf-8")
Service = Callable[[LLMAdapter], ValidationService]


@pytest.fixture
async def service(log: Database) -> AsyncGenerator[Service]:
    """A function that returns the validation service for a model; reports are stored in `log`."""
    tasks = Database.open("sqlite://")
    migrate(tasks, "graph_agent.task_server")
    async with McpToolExecutor(build_task_server(tasks)) as tools:
        # Turns take no time on this clock: latency is part of drift, and a busy machine is no drift of the agent.
        clock, config = ManualClock(), AgentEngineConfig(timeout_seconds=600)
        tasks_of_case = CaseTasks(tasks)
        yield lambda adapter: ValidationService(
            EngineRunner(adapter, tools, CONSTITUTION, tasks_of_case, clock=clock, config=config), log
        )
    await tasks.close()


@pytest.fixture
def log() -> Any:
    database = Database.open("sqlite://")
    migrate(database, "graph_agent.record")
    yield database
    database.close_now()


def case(test_id: str, **fields: Any) -> Fixture:
    return Fixture.model_validate({"test_id": test_id, **fields})


class ForgetsToComplete(EmbeddedAdapter):
    """The embedded model with a deliberate regression: it never completes a task."""

    async def generate(
        self, messages: list[LLMMessage], tools: list[ToolDeclaration], *given: Any, **named: Any
    ) -> LLMResponse:
        response = await super().generate(messages, tools, *given, **named)
        calls = [FunctionCall(name="list_tasks")] if _completes(response) else response.function_calls
        return response.model_copy(update={"function_calls": calls})


def _completes(response: LLMResponse) -> bool:
    return any(call.name == "complete_task" for call in response.function_calls or [])


async def test_the_shipped_suite_passes_with_the_embedded_model(service: Service, log: Database) -> None:
    results: list[FixtureResult] = []
    validation = service(EmbeddedAdapter())
    report = await validation.run_validation(validation.load_fixtures(shipped_suite()), on_result=results.append)
    assert [(result.test_id, result.failures) for result in report.results if not result.passed] == []
    assert (report.test_count, report.pass_count, report.fail_count) == (len(results), len(results), 0)
    assert report.models == ["embedded"]
    assert await stored_reports(log, "validation") == [report.to_json()]


async def test_a_deliberate_regression_is_found_and_named(service: Service) -> None:
    validation = service(ForgetsToComplete())
    fixtures = [one for one in validation.load_fixtures(shipped_suite()) if one.test_id.startswith(("complete-", "list-"))]
    report = await validation.run_validation(fixtures)
    failed = {result.test_id for result in report.results if not result.passed}
    assert "complete-mark-as-done" in failed
    assert not [name for name in failed if name.startswith("list-")]
    assert not report.passed


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({"expected_intent": "LIST_TASKS"}, "expected intent LIST_TASKS, got CREATE_TASK"),
        ({"expected_intent": None}, "expected intent nothing, got CREATE_TASK"),
        ({"expected_tool": "list_tasks"}, "expected tool list_tasks, got add_task"),
        ({"expected_tool": None}, "expected tool nothing, got add_task"),
        ({"expected_tool": ["add_task", "add_task"]}, "expected tool add_task, add_task, got add_task"),
        ({"expected_outcome": "ERROR"}, "expected outcome ERROR, got SUCCESS:TASK_COMPLETED"),
        ({"expected_decision": "RESPOND_ONLY"}, "expected decision RESPOND_ONLY, got INVOKE_TOOL"),
        ({"reply_contains": "zebra"}, "expected a reply with zebra, got Added"),
        ({"reply_contains": ["Call Mom", "zebra"]}, "expected a reply with Call Mom, zebra, got Added"),
        ({"reply_equals": "Added 'call mom'."}, "expected the reply Added 'call mom'., got Added"),
        ({"reply_lacks": ["zebra", "CALL MOM"]}, "expected a reply without zebra, CALL MOM, got Added"),
        ({"reply_lines": ["Added 'call mom'"]}, "expected the lines in this order Added 'call mom', got Added"),
        ({"expected_tasks": []}, "expected the tasks [], got [call mom (pending)]"),
    ],
)
async def test_each_unmet_expectation_is_reported(service: Service, fields: dict[str, Any], failure: str) -> None:
    report = await service(EmbeddedAdapter()).run_validation([case("a", input="add a task to call mom", **fields)])
    (result,) = report.results
    assert not result.passed
    assert [one for one in result.failures if one.startswith(failure)]


async def test_the_lines_of_a_reply_are_compared_in_order(service: Service) -> None:
    lines = ["You have 2 tasks:", "1. [ ] a", "2. [ ] b"]
    report = await service(EmbeddedAdapter()).run_validation(
        [
            case("all", input="show my tasks", tasks=["a", "b"], reply_lines=lines),
            case("some", input="show my tasks", tasks=["a", "b"], reply_lines=[lines[0], lines[2]]),
            case("reversed", input="show my tasks", tasks=["a", "b"], reply_lines=lines[::-1]),
        ]
    )
    assert [result.passed for result in report.results] == [True, True, False]


async def test_besides_the_expected_tool_only_read_only_tools_may_be_called(service: Service) -> None:
    lookup_first: list[dict[str, Any]] = [
        {"finish_reason": "tool_calls", "function_calls": [{"name": "list_tasks"}]},
        {"finish_reason": "tool_calls", "function_calls": [{"name": "complete_task", "arguments": {"task_id": "$task1"}}]},
        {"finish_reason": "stop", "content": "Done."},
    ]
    writes_too = [{"finish_reason": "tool_calls", "function_calls": [{"name": "add_task", "arguments": {"description": "x"}}]}]
    report = await service(EmbeddedAdapter()).run_validation(
        [
            case("look", input="do", tasks=["a"], script=lookup_first, expected_tool="complete_task"),
            case("write", input="do", tasks=["a"], script=writes_too + lookup_first, expected_tool="complete_task"),
        ]
    )
    assert [result.passed for result in report.results] == [True, False]


async def test_cases_are_isolated_also_when_they_run_at_the_same_time(service: Service) -> None:
    fixtures = [
        case(f"case-{n}", input=f"add a task to wash car {n}", expected_tasks=[f"wash car {n}"], expected_tool="add_task")
        for n in range(8)
    ]
    report = await service(EmbeddedAdapter()).run_validation(fixtures, parallel=4)
    assert report.pass_count == 8


async def test_a_model_that_fails_fails_its_cases_but_not_the_run(service: Service) -> None:
    fixtures = [case(name, input="hello", expected_outcome="SUCCESS") for name in ("a", "b")]
    report = await service(ScriptedAdapter([])).run_validation(fixtures)
    assert [result.outcomes for result in report.results] == [["ERROR:RESPONSE_GENERATION"]] * 2
    assert report.fail_count == 2
