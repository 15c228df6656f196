"""The results of tools as the model reads them: what it cannot use is left out, if the server says what that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph_agent.graph.transcript import result_json
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.testing import says
from tests.chat.environment import open_environment
from tests.scripted_turns import TableServer, asks, calls, done, engine_of


async def test_the_model_reads_a_task_without_the_user_and_fractions_of_seconds(tmp_path: Path, template: Path) -> None:
    read: list[dict[str, Any]] = []

    def answer(messages: list[LLMMessage], _: Any) -> LLMResponse:
        read.extend(message.function_response.response for message in messages if message.function_response is not None)
        return says("Here it is.")

    listing = LLMResponse(function_calls=[FunctionCall(name="list_tasks")], finish_reason="tool_calls")
    async with open_environment(tmp_path, template) as environment:
        await environment.engine().run(DecisionContext(user_id="ann", message="add call mom", conversation_id="c0"))
        with ScriptedAdapter([listing, answer]) as adapter:
            context = DecisionContext(user_id="ann", message="show my tasks", conversation_id="c1")
            finished = await environment.engine(adapter).run(context)
    (task,) = read[0]["data"]["tasks"]
    assert task.keys() == {"id", "description", "status", "created_at"}
    assert len(task["created_at"]) == len("2026-01-05T09:00:00Z")
    stored = finished.record.invocations[0].result
    assert stored is not None
    assert "user_id" in str(stored)


async def test_a_result_of_another_server_is_read_as_it_is() -> None:
    data = {"user_id": "ann", "none": None, "created_at": "2026-01-05T09:00:00.123456Z"}
    read: list[dict[str, Any]] = []

    def answer(messages: list[LLMMessage], _: Any) -> LLMResponse:
        read.extend(message.function_response.response for message in messages if message.function_response is not None)
        return says("Here it is.")

    await engine_of(calls(("list_tasks", {})), answer, server=TableServer({"list_tasks": done(data)})).run(asks())
    assert read == [{"success": True, "data": data}]


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"a": {"user_id": 1, "b": None}}, {"a": {}}),
        ([{"user_id": 1, "n": 0}, None, False], [{"n": 0}, None, False]),
        ({"due_at": "2026-01-05T09:00:00.5+02:00"}, {"due_at": "2026-01-05T09:00:00+02:00"}),
        ({"text": "2026-01-05T09:00:00.5Z", "sent_at": 5}, {"text": "2026-01-05T09:00:00.5Z", "sent_at": 5}),
    ],
)
def test_fields_that_only_programs_read_and_nulls_are_left_out(data: Any, read: Any) -> None:
    assert result_json(ToolResult(success=True, data=data), ("user_id",))["data"] == read


async def test_what_a_server_says_to_the_user_is_a_notice_and_what_it_says_to_the_model_is_not() -> None:
    answers: dict[str, Any] = {
        "list_tasks": ToolResult(True, {"text": "a plan"}, for_user="use https://shop/once", model_only=True)
    }
    read: list[str] = []

    def answer(messages: list[LLMMessage], _: Any) -> LLMResponse:
        read.append(str(messages))
        return says("Here it is.")

    engine = engine_of(calls(("list_tasks", {})), answer, server=TableServer(answers))
    decision = await engine.process_message(asks("show my tasks"))
    assert "shop/once" not in read[0]
    assert decision.notices == ["For you, from 'List tasks': use https://shop/once"]
    assert decision.authors is not None
    assert [part.author for part in decision.authors.notices[0]] == ["code", "server"]
    called = await engine_of(server=TableServer(answers)).call("ann", [FunctionCall("list_tasks")])
    assert called.decision.reply == "Done: List tasks.\n  For you: 'use https://shop/once'"
    assert called.decision.notices == []
