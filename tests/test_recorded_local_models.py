"""Recorded exchanges with small local models behind llama.cpp, replayed: every turn ends with a true sentence.

The recordings are not part of the project. `GRAPH_AGENT_RECORDED` names the folder that has them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from graph_agent.audit.findings import failure_cause
from graph_agent.errors import LLMError
from graph_agent.llm.endpoint_check import check_endpoint
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.decision import DecisionContext, OutcomeCategory
from graph_agent.models.llm import LLMErrorCause
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.fixed import FAILURE_REPLY, REPEATED_REPLY, failure_reply
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.turn.finished import FinishedTurn
from tests.chat.environment import Environment
from tests.llm.wire_server import says, serving

FOLDER = Path(os.environ.get("GRAPH_AGENT_RECORDED", "")) / "local_models"
RECORDED = {file.stem: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            for file in sorted(FOLDER.glob("*.jsonl"))}  # fmt: skip
WRITTEN = RECORDED.get("qwen05_calls_written_as_text_20", [])

pytestmark = pytest.mark.skipif(not RECORDED, reason="GRAPH_AGENT_RECORDED names no folder with recordings of local models")


def message(exchange: dict[str, Any]) -> str:
    return next(str(one["content"]) for one in exchange["request"]["messages"] if one["role"] == "user")


async def replayed(environment: Environment, *exchanges: dict[str, Any]) -> tuple[FinishedTurn, list[dict[str, Any]]]:
    """Run a turn against a server that plays `exchanges`, and repeats the last; return it and the requests."""
    async with serving(*(says(one["response"], one["status"]) for one in exchanges)) as wire:
        adapter = OpenAICompatibleAdapter("", exchanges[0]["request"]["model"], base_url=wire.url)
        context = DecisionContext(user_id="ann", message=message(exchanges[0]), conversation_id="c1")
        finished = await environment.engine(adapter).run(context)
        await adapter.aclose()
    return finished, [request.body for request in wire.requests]


@pytest.mark.parametrize("exchange", WRITTEN, ids=message)
async def test_a_call_that_was_written_as_text_is_not_shown(environment: Environment, exchange: dict[str, Any]) -> None:
    finished, _ = await replayed(environment, exchange)
    assert finished.decision.reply == failure_reply(None, LLMErrorCause.CALLS_AS_TEXT)
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert finished.decision.failure is LLMErrorCause.CALLS_AS_TEXT
    assert await environment.descriptions() == []


async def test_a_model_that_lists_the_tasks_again_and_again_is_stopped_and_the_user_reads_them(
    environment: Environment,
) -> None:
    exchanges = RECORDED["qwen05_grammar_loop_list_tasks"]
    await environment.engine().run(DecisionContext(user_id="ann", message="add buy milk", conversation_id="c0"))
    finished, requests = await replayed(environment, *exchanges)
    assert finished.decision.reply.startswith(REPEATED_REPLY)
    assert "buy milk" in finished.decision.reply
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert [len(request["tools"]) for request in requests] == [8, 8, 3]


async def test_a_request_that_does_not_fit_the_context_is_sent_once(environment: Environment) -> None:
    finished, requests = await replayed(environment, *RECORDED["context_overflow"])
    assert len(requests) == 1
    assert finished.decision.reply == failure_reply(None, LLMErrorCause.CONTEXT_EXCEEDED)
    assert str(failure_cause(finished.record)).startswith(
        "the request of 1,516 tokens does not fit the model's context of 1,024 tokens: "
    )


async def test_a_reply_form_before_prose_up_to_the_limit_is_the_reply(environment: Environment) -> None:
    finished, _ = await replayed(environment, *RECORDED["qwen05_required_ignored_rambling_1024"])
    assert finished.decision.reply == "Hello! How can I assist you today?"
    assert finished.decision.failure is None


@pytest.mark.parametrize("exchange", RECORDED.get("smollm2_tools_dropped_by_template", []), ids=message)
async def test_a_model_without_declarations_answers_in_its_own_words(
    environment: Environment, exchange: dict[str, Any]
) -> None:
    finished, _ = await replayed(environment, exchange)
    said = exchange["response"]["choices"][0]["message"]["content"]
    assert finished.decision.reply == said
    assert finished.decision.tool_calls is None


async def test_the_log_names_the_doctor_once_if_the_declarations_do_not_reach_the_model(
    environment: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = RECORDED["smollm2_tools_dropped_by_template"][0]
    async with serving(*[says(exchange["response"], exchange["status"])] * 2) as wire:
        adapter = OpenAICompatibleAdapter("", exchange["request"]["model"], base_url=wire.url)
        engine = environment.engine(adapter)
        for _ in range(2):
            await engine.run(DecisionContext(user_id="ann", message="Hello!", conversation_id="c0"))
        await adapter.aclose()
    (warning,) = [record.message for record in caplog.records if "doctor" in record.message]
    assert "the model read 32 prompt tokens, too few for its 8 functions" in warning


@pytest.mark.parametrize("exchange", RECORDED.get("qwen05_client_hung_up_at_30s", []))
async def test_a_server_whose_client_hung_up_is_a_failure(environment: Environment, exchange: dict[str, Any]) -> None:
    finished, requests = await replayed(environment, exchange)
    assert finished.decision.reply == FAILURE_REPLY
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("smollm2_tools_dropped_by_template", "the declarations of the tools do not reach the model (32 prompt tokens for"),
        ("qwen05_calls_written_as_text_20", "the model writes its calls as text; "),
        ("context_overflow", "the request of 1,516 tokens does not fit the model's context of 1,024 tokens: "),
    ],
)
async def test_the_doctor_says_that_such_a_model_cannot_work(name: str, reason: str) -> None:
    exchange = RECORDED[name][0]
    async with serving(says(exchange["response"], exchange["status"])) as wire:
        adapter = OpenAICompatibleAdapter("", exchange["request"]["model"], base_url=wire.url)
        with pytest.raises(LLMError) as raised:
            await check_endpoint(adapter, Constitution.load(None).text, TASK_TOOLS)
        await adapter.aclose()
    assert raised.value.message.removeprefix("cannot work: ").startswith(reason)
