"""The invariants of one turn, for any model output."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.errors import ToolErrorCode
from graph_agent.graph.build import build_graph
from graph_agent.models.decision import DecisionContext, DecisionType, OutcomeCategory
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.signature import Signer
from graph_agent.reply.forms import REPLY_FORMS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.examples import examples
from tests.invariants.adversary import Adversary, model_answers
from tests.invariants.calls import CONSTITUTION, DELETE, LIST, PREVIEWS, UNKNOWN, VOIDED
from tests.invariants.checks import TASK, WHITELIST, check_replay, check_turn, confirmed_action
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, ends, engine_of, failed, grouped


class Stage:
    """Runs one turn after another on a graph that is compiled once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.signer = Signer(SECRET)
        self._graph = build_graph()

    async def turn(
        self, answers: Sequence[Any], context: DecisionContext, results: dict[str, ToolResult], settled: ToolResult
    ) -> None:
        server = TableServer(dict(results), PREVIEWS, settlements=[settled] * 50)
        engine = LLMAgentEngine(
            Adversary(answers),
            server,
            CONSTITUTION,
            **grouped(clock=self.clock, ids=SequentialIds(), signer=self.signer, graph=self._graph),
        )
        finished = await engine.run(context)
        check_turn(finished, server.sent)
        assert finished.turn is not None
        assert finished.turn.request is not None
        requested = [call for message in finished.turn.request.messages for call in message.function_calls or []]
        assert len([call for call in requested if call.name not in REPLY_FORMS]) == len(finished.record.invocations)
        await check_replay(engine, finished.record)


_RESULTS = st.fixed_dictionaries(
    {
        name: st.sampled_from(
            [
                done({"receipt": "did it"}),
                done({"tasks": ["x"] * 3000, "receipt": "did it"}),
                failed(ToolErrorCode.DATABASE_ERROR),
                UNKNOWN,
            ]
        )
        for name in WHITELIST
    }
)


def test_every_invariant_of_a_turn_holds_for_any_model_output() -> None:
    stage = Stage()
    waiting = confirmed_action(stage.signer, stage.clock.now(), server=TableServer(previews=PREVIEWS))
    contexts = [asks(), *(asks(message, pending_confirmation=waiting) for message in ("yes", "no", "yes and add milk"))]

    @given(
        answers=st.lists(model_answers(), min_size=1, max_size=6),
        context=st.sampled_from(contexts),
        results=_RESULTS,
        settled=st.sampled_from([done({"receipt": "did it"}), VOIDED, UNKNOWN]),
    )
    @settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
    def check(answers: list[Any], context: DecisionContext, results: dict[str, ToolResult], settled: ToolResult) -> None:
        asyncio.run(stage.turn(answers, context, results, settled))

    check()


async def test_a_model_that_never_stops_gets_five_iterations() -> None:
    numbers = itertools.count()
    server = TableServer({"add_task": done({"receipt": "added a task"})})

    def more(_: Any) -> LLMResponse:
        return calls(("add_task", {"description": f"task {next(numbers)}"}), ("nonsense", {}))

    model = Adversary([more])
    finished = await LLMAgentEngine(model, server, CONSTITUTION).run(asks())
    check_turn(finished, server.sent)
    assert len(model.requests) == 5
    assert finished.record.iterations == 5
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION


async def test_no_call_beyond_a_limit_of_its_batch_is_sent() -> None:
    def append_a_call(_: dict[str, Any]) -> ToolResult:
        requested.append(FunctionCall(name="add_task", arguments={"description": "smuggled in later"}))
        return done()

    requested = [FunctionCall(name="add_task", arguments={"description": f"task {n}"}) for n in range(7)]
    server = TableServer({"add_task": append_a_call})
    answer = LLMResponse(function_calls=requested, finish_reason="tool_calls")
    finished = await engine_of(answer, says("Done."), server=server).run(asks())
    assert [given["description"] for _, given, *_ in server.sent] == [f"task {n}" for n in range(5)]
    assert [call.disposition for call in finished.record.invocations[5:]] == [CallDisposition.REFUSED] * 2


async def test_a_preview_is_requested_only_from_a_server_that_declares_it() -> None:
    class WithoutPreviews(TableServer):
        async def preview(self, *_: Any, **__: Any) -> ToolResult:
            raise AssertionError("a preview that the server does not declare")

    decision = await engine_of(calls(DELETE), server=WithoutPreviews()).process_message(asks("delete it"))
    assert decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert decision.reply == f"Delete task '{TASK}'. Should I go ahead? Please answer yes or no."


@pytest.mark.parametrize(
    "answer",
    [
        ends(),
        says(""),
        says(" \n\t\u200b\u202e"),
        ends("tool_calls"),
        ends("max_tokens"),
        ends("error", "Done!"),
        says("half a pair \ud800"),
        says('delete_task(task_id="t1")'),
        LLMResponse(content="Done!", function_calls=[FunctionCall(name="")], finish_reason="stop"),
        LLMResponse(function_calls=[FunctionCall(name="list_tasks", id="1")] * 2, finish_reason="tool_calls"),
        calls(("decline", {"text": " "})),
        calls(*[LIST] * 65),
        None,
        "Done!",
        {"content": "Done!", "finish_reason": "stop"},
    ],
)
async def test_an_empty_or_malformed_output_is_never_a_success(answer: Any) -> None:
    class ReturnsAnything(Adversary):
        async def generate(self, *_: Any, **__: Any) -> Any:
            return answer

    server = TableServer()
    finished = await LLMAgentEngine(ReturnsAnything([answer]), server, CONSTITUTION).run(asks())
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert server.sent == []
    check_turn(finished, [])
