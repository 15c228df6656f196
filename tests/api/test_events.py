"""The events of a turn: live while it runs, and from its record afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from pydantic import SecretStr

from graph_agent.api import sse
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.leases import LEASE
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMErrorCode, LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.models.record import InterruptReason
from graph_agent.testing import calls, says
from tests.api.event_client import Heard, hear, heard, listening
from tests.chat.environment import Environment, GatedModel, LosingModel
from tests.frozen_clock import freeze_loop_time, pass_time

Served = Callable[[Runtime], httpx.AsyncClient]

NOBODYS = "00000000-0000-4000-8000-000000000000"


async def _stream(client: httpx.AsyncClient, content: str, headers: dict[str, str] | None = None, **more: str) -> list[Heard]:
    return await heard(await client.post("/api/chat/stream", json={"content": content, **more}, headers=headers))


async def _recorded(client: httpx.AsyncClient, decision_id: str) -> list[Heard]:
    return await heard(await client.get(f"/api/decisions/{decision_id}/events"))


def _state(name: str, iteration: int = 1) -> tuple[str, dict[str, Any]]:
    return "state", {"state": name, "iteration": iteration, "max_iterations": 5}


async def test_a_stream_has_every_state_and_call_and_ends_with_the_answer(
    environment: Environment, client: httpx.AsyncClient
) -> None:
    events = await _stream(client, "add a task to call mom")
    *way, end = events
    ends = [one.data.pop("at_ms") for one in way if one.event == "state"]
    assert ends[0] == 0
    assert ends == sorted(ends)
    times = [one.data.pop("ms") for one in way if "ms" in one.data]
    assert len(times) == 3
    assert min(times) >= 0
    of_model = {"error": None, "finish_reason": "tool_calls", "tokens": None}
    assert [(one.event, one.data) for one in way] == [
        _state("BUILD_REQUEST"),
        _state("INVOKE_LLM"),
        ("model_call", {**of_model, "calls": ["Add task"], "arguments": [{"description": "call mom"}]}),
        _state("CHECK_RESPONSE"),
        _state("EXECUTE_TOOLS"),
        (
            "tool_call",
            {
                "sequence": 1,
                "tool_name": "add_task",
                "title": "Add task",
                "arguments": {"description": "call mom"},
                "disposition": "executed",
                "gate": None,
                "rule": None,
                "success": True,
                "error_code": None,
                "operation": "done",
            },
        ),
        ("receipt", {"sequence": 1, "text": "Add task 'call mom'"}),
        _state("APPEND_RESULTS"),
        _state("CHECK_ITERATIONS"),
        _state("INVOKE_LLM", 2),
        ("model_call", {**of_model, "calls": ["Answer"], "arguments": [None]}),
        _state("CHECK_RESPONSE", 2),
        _state("BUILD_DECISION", 2),
    ]
    decision_id = end.data["decision_id"]
    assert [one.id for one in events] == [f"{decision_id}:{number}" for number in range(1, len(events) + 1)]
    assert end.event == "decision"
    assert set(end.data) == {"conversation_id", "message_id", "decision_id", "reply", "decision"}
    shown = (await client.get(f"/api/conversations/{end.data['conversation_id']}")).json()
    assert (shown["messages"][1]["id"], shown["messages"][1]["content"]) == (end.data["message_id"], end.data["reply"])
    assert await environment.descriptions("local") == ["call mom"]


async def test_the_last_event_is_the_answer_of_a_plain_request(client: httpx.AsyncClient) -> None:
    keyed = {"Idempotency-Key": "k"}
    plain = (await client.post("/api/chat", json={"content": "add milk"}, headers=keyed)).json()
    events = await _stream(client, "add milk", keyed)
    assert events[-1].data == plain
    assert events == await _recorded(client, plain["decision_id"])


def _all(*asked: FunctionCall) -> LLMResponse:
    return LLMResponse(function_calls=list(asked), finish_reason="tool_calls")


def _call(name: str, **arguments: Any) -> FunctionCall:
    return FunctionCall(name=name, arguments=arguments)


_FAILS = LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)
_MILK = _call("add_task", description="milk")
_ASKS = _call("ask_user", question="Which one?", reason="multiple_matches")

TURNS: dict[str, list[LLMResponse]] = {
    "an answer": [says("Hello.")],
    "a question": [_all(_ASKS)],
    "a refusal": [calls("decline", text="I can't.")],
    "a failure": [_FAILS],
    "nothing": [says("")],
    "a failure after a change": [_all(_MILK), _FAILS],
    "a form beside calls": [_all(_ASKS, _MILK), says("Done.")],
    "a whole batch": [
        _all(_MILK, _MILK, _call("add_task", description=""), _call("list_tasks"), _call("rm -rf /"), _call("complete_task")),
        _all(_call("update_task", task_id=NOBODYS, description="eggs"), _call("list_tasks")),
        says("Done."),
    ],
    "a confirmation": [
        _all(_MILK, _call("list_tasks")),
        _all(_call("list_tasks"), _call("delete_task", task_id=NOBODYS), _MILK),
    ],
    "the cap": [_all(_call("list_tasks"))] * 5,
    "a flood": [_all(*[_MILK] * 100)],
    "calls that were cut": [LLMResponse(content="I will", function_calls=[_MILK], finish_reason="max_tokens")],
}


@pytest.mark.parametrize("name", TURNS)
async def test_the_live_events_are_those_of_the_record(environment: Environment, served: Served, name: str) -> None:
    client = served(environment.runtime(ScriptedAdapter(TURNS[name])))
    events = await _stream(client, "hello")
    assert events[-1].event == "decision"
    assert events == await _recorded(client, events[-1].data["decision_id"])
    elsewhere = served(environment.runtime(ScriptedAdapter([])))
    assert events == await _recorded(elsewhere, events[-1].data["decision_id"])


async def test_a_confirmation_and_its_answer_have_the_same_events_live_and_from_the_record(
    environment: Environment, client: httpx.AsyncClient
) -> None:
    conversation = (await _stream(client, "add milk"))[-1].data["conversation_id"]
    for content, dispositions in (
        ("delete the milk task", ["executed", "awaiting"]),
        ("no", []),
        ("delete the milk task", ["executed", "awaiting"]),
        ("yes", ["executed"]),
    ):
        events = await _stream(client, content, conversation_id=conversation)
        assert [one.data["disposition"] for one in events if one.event == "tool_call"] == dispositions
        assert events == await _recorded(client, events[-1].data["decision_id"])
    assert [one.data["text"] for one in events if one.event == "receipt"] == ["Delete task 'milk'"]
    assert await environment.descriptions("local") == []


async def test_calls_are_shown_by_title_and_an_invented_name_is_not_shown(environment: Environment, served: Served) -> None:
    events = await _stream(served(environment.runtime(ScriptedAdapter(TURNS["a whole batch"]))), "hello")
    asked = next(one.data["calls"] for one in events if one.event == "model_call")
    assert asked == ["Add task", "Add task", "Add task", "List tasks", "A tool that does not exist", "Complete task"]
    made = [(one.data["disposition"], one.data["success"]) for one in events if one.event == "tool_call"]
    assert made[:5] == [("executed", True), ("repeated", True), ("executed", False), ("executed", True), ("refused", False)]


async def test_what_is_known_before_the_turn_is_an_ordinary_answer(
    environment: Environment, served: Served, tmp_path: Path
) -> None:
    client = served(environment.runtime(ScriptedAdapter([says("hi")]), turns_per_minute=1))

    async def status(client: httpx.AsyncClient = client, headers: dict[str, str] | None = None, **body: Any) -> tuple[int, str]:
        answer = await client.post("/api/chat/stream", json=body, headers=headers)
        return answer.status_code, answer.json()["error"]["code"]

    assert await status() == (422, "VALIDATION_ERROR")
    assert await status(content=" ") == (422, "VALIDATION_ERROR")
    assert await status(content="x", headers={"Idempotency-Key": "a b"}) == (422, "VALIDATION_ERROR")
    assert await status(content="x", headers={"Last-Event-ID": "1"}) == (422, "VALIDATION_ERROR")
    assert await status(content="x", headers={"Content-Type": "text/plain"}) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert await status(content="x", conversation_id=NOBODYS) == (404, "CONVERSATION_NOT_FOUND")
    assert await status(content="x", conversation_id="1") == (400, "INVALID_ID_FORMAT")
    assert await status(content="x", headers={"Last-Event-ID": f"{NOBODYS}:1"}) == (404, "DECISION_NOT_FOUND")
    assert (await _stream(client, "hello"))[-1].data["reply"] == "hi"
    assert await status(content="x") == (429, "RATE_LIMITED")
    gone = Database.open(f"sqlite:///{tmp_path}/gone.db")
    gone.close_now()
    without_log = served(environment.runtime(ScriptedAdapter([]), database=gone))
    assert await status(without_log, content="x") == (503, "SERVICE_UNAVAILABLE")
    assert (await without_log.get(f"/api/decisions/{NOBODYS}/events")).status_code == 503


async def test_the_same_key_streams_the_same_turn_again_and_runs_none(environment: Environment, served: Served) -> None:
    model = ScriptedAdapter([calls("add_task", description="milk"), says("Added.")])
    client = served(environment.runtime(model))
    keyed = {"Idempotency-Key": "k"}
    events = await _stream(client, "add milk", keyed)
    assert await _stream(client, "add milk", keyed) == events
    assert await _stream(served(environment.runtime(ScriptedAdapter([]))), "add milk", keyed) == events
    other = await client.post("/api/chat/stream", json={"content": "add eggs"}, headers=keyed)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(await environment.decisions()) == 1
    assert await environment.descriptions("local") == ["milk"]


async def test_a_client_that_reconnects_gets_the_missed_events(environment: Environment, client: httpx.AsyncClient) -> None:
    events = await _stream(client, "add milk")
    path = f"/api/decisions/{events[-1].data['decision_id']}/events"
    for heard_so_far in (0, 1, 5, len(events) - 1):
        last = {"Last-Event-ID": f"{events[0].id.partition(':')[0]}:{heard_so_far}"}  # type: ignore[union-attr]  # it has an id
        assert await heard(await client.get(path, headers=last)) == events[heard_so_far:]
        assert await _stream(client, "add milk", last) == events[heard_so_far:]
    for ended in (events[-1].id, f"{events[-1].data['decision_id']}:999999999"):
        at_its_end = {"Last-Event-ID": str(ended)}
        for answer in (
            await client.get(path, headers=at_its_end),
            await client.post("/api/chat/stream", json={"content": "add milk"}, headers=at_its_end),
        ):
            assert (answer.status_code, answer.content) == (204, b"")
    assert await heard(await client.get(path, headers={"Last-Event-ID": f"{NOBODYS}:3"})) == events
    assert len(await environment.decisions()) == 1


async def test_several_clients_can_stream_a_running_turn(environment: Environment) -> None:
    model = GatedModel([calls("add_task", description="milk"), says("Added.")])
    async with listening(environment.runtime(model)) as client:
        body, keyed = {"content": "add milk"}, {"Idempotency-Key": "k"}
        async with client.stream("POST", "/api/chat/stream", json=body, headers=keyed) as answer:
            coming = hear(answer)
            first, second = await anext(coming), await anext(coming)
            assert (first.data["state"], second.data["state"]) == ("BUILD_REQUEST", "INVOKE_LLM")
            clicked = await client.post("/api/chat/stream", json=body, headers=keyed)
            assert (clicked.status_code, clicked.json()["error"]["code"]) == (409, "REQUEST_IN_PROGRESS")
            path = f"/api/decisions/{str(first.id).partition(':')[0]}/events"
            back = {**keyed, "Last-Event-ID": str(first.id)}
            async with (
                client.stream("GET", path) as beside,
                client.stream("POST", "/api/chat/stream", json=body, headers=back) as again,
            ):
                joined, returned = hear(beside), hear(again)
                assert [await anext(joined), await anext(joined)] == [first, second]
                assert await anext(returned) == second
                model.gate.set()
                rest = [event async for event in coming]
                assert [event async for event in joined] == rest
                assert [event async for event in returned] == rest
        assert [first, second, *rest] == await _recorded(client, rest[-1].data["decision_id"])
    assert await environment.descriptions("local") == ["milk"]
    assert len(await environment.decisions()) == 1


async def test_a_turn_that_was_asked_for_plainly_can_be_watched_too(environment: Environment) -> None:
    model = GatedModel([says("hello")])
    async with listening(environment.runtime(model)) as client:
        running = asyncio.create_task(client.post("/api/chat", json={"content": "hi"}))
        await model.asked.acquire()
        (decision_id,) = await _open_decisions(environment)
        async with client.stream("GET", f"/api/decisions/{decision_id}/events") as answer:
            coming = hear(answer)
            assert (await anext(coming)).data["state"] == "BUILD_REQUEST"
            model.gate.set()
            assert [event async for event in coming][-1].data == (await running).json()


async def test_a_client_that_disconnects_does_not_stop_the_turn(environment: Environment) -> None:
    model = GatedModel([calls("add_task", description="milk"), says("Added.")])
    async with listening(environment.runtime(model)) as client:
        async with client.stream("POST", "/api/chat/stream", json={"content": "add milk"}) as answer:
            first = await anext(hear(answer))
        await model.asked.acquire()
        model.gate.set()
        events = await _recorded(client, str(first.id).partition(":")[0])
    assert events[0] == first
    assert events[-1].data["reply"] == "Added."
    assert await environment.decisions() == [("INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", "completed")]
    assert await environment.turns() == [("done", 1)]


async def test_a_turn_of_another_process_is_streamed_once_it_has_ended(environment: Environment) -> None:
    model = GatedModel([says("hello")])
    here, there = environment.runtime(), environment.runtime(model)
    running = asyncio.create_task(there.chat.send("local", "hi"))
    await model.asked.acquire()
    (decision_id,) = await _open_decisions(environment)
    async with listening(here) as client, client.stream("GET", f"/api/decisions/{decision_id}/events") as answer:
        # The headers are there, and the turn still runs.
        model.gate.set()
        events = await heard(answer)
    done = await running
    assert [one.data["state"] for one in events if one.event == "state"] == done.states
    assert events[-1].data["message_id"] == done.message_id


async def test_an_interrupted_turn_is_streamed_to_its_end(environment: Environment, served: Served) -> None:
    clock = freeze_loop_time(ManualClock())
    environment.clock = clock
    model = DeafModel(lambda: clock.advance(seconds=30))
    client = served(environment.runtime(model))
    events = await _stream(client, "hello")
    assert [one.data.get("state", one.event) for one in events] == [
        "BUILD_REQUEST",
        "INVOKE_LLM",
        "model_call",
        "CHECK_RESPONSE",
        "ERROR_RESPONSE",
        "BUILD_DECISION",
        "decision",
    ]
    without_calls: dict[str, Any] = {"calls": [], "arguments": [], "tokens": None, "ms": 0}
    assert events[2].data == {"finish_reason": "error", "error": "TIMEOUT", **without_calls}
    assert events == await _recorded(client, events[-1].data["decision_id"])
    assert [status for _, _, status in await environment.decisions()] == ["interrupted"]
    model.released.set()


async def test_a_shutdown_ends_the_stream_with_the_interrupted_decision(environment: Environment, served: Served) -> None:
    model = GatedModel([])
    runtime = environment.runtime(model)
    client = served(runtime)
    streaming = asyncio.create_task(_stream(client, "hello"))
    await model.asked.acquire()
    await runtime.chat.aclose()
    events = await streaming
    assert events[-1].data["decision"]["outcome_category"] == "ERROR:RESPONSE_GENERATION"
    assert events == await _recorded(client, events[-1].data["decision_id"])
    record = await environment.engines[-1].audit.load(events[-1].data["decision_id"])
    assert record is not None
    assert record.entries[-1].result["reason"] == InterruptReason.SHUTDOWN


async def test_a_turn_that_breaks_off_says_so_and_the_same_key_goes_on_with_it(
    environment: Environment, served: Served
) -> None:
    clock = ManualClock()
    environment.use_clock(clock)
    lost = environment.open_database(Database)
    model = LosingModel([calls("add_task", description="milk"), says("Added.")], lost)
    keyed = {"Idempotency-Key": "k"}
    events = await pass_time(clock, _stream(served(environment.runtime(model, database=lost)), "add milk", keyed))
    clock.advance(seconds=LEASE.total_seconds())
    *way, end = events
    assert (end.event, end.id, end.data["error"]["code"]) == ("error", None, "OUTCOME_UNKNOWN")
    again = await _stream(served(environment.runtime(ScriptedAdapter([says("Added.")]))), "add milk", keyed)
    # The times are those of the later attempt.
    untimed = {"at_ms": 0, "ms": 0}
    assert [{**one.data, **untimed} for one in again[: len(way)]] == [{**one.data, **untimed} for one in way]
    assert again[-1].data["reply"] == "Added."
    assert again == await _recorded(served(environment.runtime()), again[-1].data["decision_id"])
    assert await environment.descriptions("local") == ["milk"]
    assert await environment.turns() == [("done", 2)]


class DeafModel(ScriptedAdapter):
    """A model that advances the clock, ignores its first cancellation and answers only when it is released."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__([])
        self._wait = wait
        # The test keeps this event. A task that waits for an event to which nothing else refers may be garbage collected.
        self.released = asyncio.Event()

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **named: Any) -> LLMResponse:
        self._wait()
        with contextlib.suppress(asyncio.CancelledError):
            await self.released.wait()
        await self.released.wait()
        return await super().generate(messages, tools, *args, **named)


async def test_decisions_without_a_turn_have_events_too(environment: Environment, served: Served) -> None:
    runtime = environment.runtime(ScriptedAdapter([says("hello")]))
    client = served(runtime)
    context = DecisionContext(user_id="local", message="hi", conversation_id="c1")
    decision = (await runtime.engine.run(context)).decision
    events = await _recorded(client, str(decision.decision_id))
    assert events[-1].data == {
        "conversation_id": "c1",
        "message_id": None,
        "decision_id": decision.decision_id,
        "reply": "hello",
        "decision": decision.to_json(),
    }
    assert (await client.post("/api/chat", json={"content": " "})).status_code == 422
    refused = (await client.get("/api/decisions", params={"outcome": "ERROR:USER_INPUT"})).json()["items"][0]
    assert [one.event for one in await _recorded(client, refused["decision_id"])] == ["decision"]


async def test_comments_keep_a_silent_stream_alive(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    # A comment is sent each fifteen seconds otherwise.
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.01)
    model = GatedModel([says("hello")])
    async with (
        listening(environment.runtime(model)) as client,
        client.stream("POST", "/api/chat/stream", json={"content": "hi"}) as answer,
    ):
        async for line in answer.aiter_lines():
            if line == ": keep-alive":
                break
        model.gate.set()


async def test_a_decision_belongs_to_its_user_and_an_auditor_may_look(environment: Environment, served: Served) -> None:
    secret = "a secret of sixty-four bytes or more, so that no algorithm complains of it"
    client = served(environment.runtime(settings={"jwt_secret": SecretStr(secret), "jwt_audience": "x", "auditors": ("eve",)}))

    def bearer(user: str) -> dict[str, str]:
        token = jwt.encode({"sub": user, "aud": "x", "exp": int(time.time()) + 86_400}, secret)
        return {"Authorization": f"Bearer {token}"}

    events = await _stream(client, "add milk", bearer("ann"))
    path = f"/api/decisions/{events[-1].data['decision_id']}/events"
    assert await heard(await client.get(path, headers=bearer("ann"))) == events
    assert await heard(await client.get(path, headers=bearer("eve"))) == events
    back = {"Last-Event-ID": f"{events[-1].data['decision_id']}:1"}
    for answer, expected in (
        (await client.get(path, headers=bearer("bob")), 404),
        (await client.post("/api/chat/stream", json={"content": "x"}, headers={**bearer("bob"), **back}), 404),
        (await client.get(path), 401),
        (await client.post("/api/chat/stream", json={"content": "x"}), 401),
        (await client.get("/api/decisions/1/events", headers=bearer("ann")), 400),
    ):
        assert answer.status_code == expected


async def test_a_running_turn_is_hidden_from_other_users(environment: Environment, served: Served) -> None:
    model = GatedModel([says("hello")])
    runtime = environment.runtime(model)
    running = asyncio.create_task(runtime.chat.send("ann", "hi"))
    await model.asked.acquire()
    (decision_id,) = await _open_decisions(environment)
    assert (await served(runtime).get(f"/api/decisions/{decision_id}/events")).status_code == 404
    assert (await served(environment.runtime()).get(f"/api/decisions/{decision_id}/events")).status_code == 404
    model.gate.set()
    await running


async def _open_decisions(environment: Environment) -> list[str]:
    query = "SELECT decision_id FROM decision_logs WHERE status = 'PENDING'"
    return await environment.database.read(lambda connection: list(connection.exec_driver_sql(query).scalars()))
