"""A model that repeats its calls: the rounds end early, and the user reads what is true."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import LLMError, ToolErrorCode
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.llm import LLMErrorCause, LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.reply.fixed import CAP_REPLY, REPEATED_AND_FAILED_REPLY, REPEATED_REPLY
from graph_agent.reply.forms import REPLY_FORMS
from graph_agent.testing import says
from tests.scripted_turns import TableServer, asks, calls, done, ends, engine_of, failed

ADD = ("add_task", {"description": "call mom"})
LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})


def reads() -> TableServer:
    return TableServer({"list_tasks": done({"tasks": ["call mom"], "count": 1})})


async def test_a_model_that_repeats_a_call_is_asked_once_more_without_tools() -> None:
    declared = []

    def answering(response: LLMResponse) -> Any:
        def answer(_: list[LLMMessage], tools: list[ToolDeclaration]) -> LLMResponse:
            declared.append({tool.name for tool in tools})
            return response

        return answer

    said = calls(("answer", {"text": "One task: call mom.", "reports_change": False}))
    engine = engine_of(*map(answering, (calls(LIST), calls(LIST), said)), server=reads())
    finished = await engine.run(asks())
    assert finished.decision.response_text == "One task: call mom."
    assert finished.decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert declared[0] == declared[1] > REPLY_FORMS
    assert declared[2] == REPLY_FORMS


@pytest.mark.parametrize(
    "third", [calls(LIST), calls(ADD), LLMError(), ends(), says("")], ids=["repeats", "calls", "fails", "empty", "blank"]
)
async def test_without_that_answer_the_user_gets_what_was_read(third: Any) -> None:
    server = reads()
    engine = engine_of(calls(LIST), calls(LIST), third, server=server)
    finished = await engine.run(asks())
    reply = finished.decision.reply
    assert reply == f"{REPEATED_REPLY}\n\nList tasks:\n  Count: 1\n  Tasks: 'call mom'"
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert finished.decision.decision_type is DecisionType.RESPOND_ONLY
    assert finished.record.states.count("INVOKE_LLM") == 3
    assert len(server.sent) == 2


async def test_a_call_that_fails_each_time_is_reported_as_failed() -> None:
    server = TableServer({"list_tasks": failed(ToolErrorCode.TOOL_EXECUTION_ERROR)})
    finished = await engine_of(*[calls(LIST)] * 3, server=server).run(asks())
    assert finished.decision.reply == REPEATED_AND_FAILED_REPLY
    assert finished.decision.failure is LLMErrorCause.REPEATED_CALLS


async def test_what_was_done_follows_on_a_line_of_its_own() -> None:
    server = reads()
    server.answers["add_task"] = done({"preview": "call mom"})
    finished = await engine_of(calls(ADD), calls(LIST), calls(LIST), calls(LIST), server=server).run(asks())
    assert finished.decision.reply.split("\n")[-1] == "Already done: Add task 'call mom'."


async def test_a_read_repeated_after_a_change_goes_on() -> None:
    server = reads()
    server.answers["add_task"] = done({"receipt": "added"})
    rounds = [calls(LIST), calls(ADD), calls(LIST), calls(("add_task", {"description": "buy milk"})), says("Both are added.")]
    finished = await engine_of(*rounds, server=server).run(asks())
    assert finished.decision.reply.startswith("Both are added.")
    assert len(server.sent) == 4


async def test_a_repeated_change_ends_the_rounds_too() -> None:
    server = TableServer({"add_task": done({"preview": "call mom"})})
    finished = await engine_of(*[calls(ADD)] * 3, server=server).run(asks())
    assert finished.decision.reply == f"{REPEATED_REPLY} Already done: Add task 'call mom'."
    assert len(server.sent) == 1


async def test_a_repeated_call_with_another_result_goes_on() -> None:
    results = iter(range(9))
    server = TableServer({"list_tasks": lambda _: done({"count": next(results)})})
    finished = await engine_of(*[calls(LIST)] * 5, server=server).run(asks())
    assert finished.decision.reply == CAP_REPLY
    assert len(server.sent) == 5


async def test_a_round_with_a_new_call_goes_on() -> None:
    rounds = [calls(LIST, ("add_task", {"description": f"task {n}"})) for n in range(5)]
    server = reads()
    server.answers["add_task"] = done({"receipt": "added"})
    assert (await engine_of(*rounds, server=server).run(asks())).decision.reply.startswith(CAP_REPLY)


async def test_at_the_limit_of_rounds_the_user_gets_what_was_read_as_well() -> None:
    engine = engine_of(calls(LIST), calls(LIST), server=reads(), config=AgentEngineConfig(max_iterations=2))
    finished = await engine.run(asks())
    assert finished.record.states.count("INVOKE_LLM") == 2
    assert "TIMEOUT_RESPONSE" in finished.record.states
    assert finished.decision.reply.startswith(REPEATED_REPLY)
    assert "call mom" in finished.decision.reply
