"""POST /agui: turns in the AG-UI protocol."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from ag_ui.core import RunAgentInput, RunFinishedInterruptOutcome, TextMessageStartEvent
from ag_ui.core.events import Event
from pydantic import TypeAdapter

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ServiceError
from graph_agent.integrations.agui import Translation, _read_run
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.stops import place_stop
from graph_agent.turn.events import EventKind, TurnEvent
from tests.chat.environment import Environment

EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def run_input(text: str | None = None, *, run_id: str = "r1", state: Any = None, **more: Any) -> dict[str, Any]:
    messages = [] if text is None else [{"id": "m1", "role": "user", "content": text}]
    return {"threadId": "t1", "runId": run_id, "state": state or {}, "messages": messages, "tools": [], "context": [], **more}


async def run(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Any]:
    answer = await client.post("/agui", json=body)
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [EVENT.validate_json(line) for line in lines]


def text_of(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


def state_of(events: list[Any]) -> Any:
    (snapshot,) = [event.snapshot for event in events if event.type == "STATE_SNAPSHOT"]
    return snapshot


async def test_a_run_has_steps_tool_calls_text_and_state(client: httpx.AsyncClient) -> None:
    events = await run(client, run_input("add a task to call mom"))
    assert (events[0].type, events[-1].type) == ("RUN_STARTED", "RUN_FINISHED")
    assert (events[-1].thread_id, events[-1].run_id, events[-1].outcome.type) == ("t1", "r1", "success")
    started = [event.step_name for event in events if event.type == "STEP_STARTED"]
    assert started == [event.step_name for event in events if event.type == "STEP_FINISHED"]
    assert (started[0], started[-1]) == ("BUILD_REQUEST", "BUILD_DECISION")
    calls = [event.tool_call_name for event in events if event.type == "TOOL_CALL_START"]
    (result,) = [json.loads(event.content) for event in events if event.type == "TOOL_CALL_RESULT"]
    assert calls == ["add_task"]
    assert result["success"] is True
    assert text_of(events) == "Added 'call mom' to your list."
    assert state_of(events)["decision"]["effects"] == ["Add task 'call mom'"]


@pytest.mark.parametrize(
    ("resume", "reply"),
    [
        ({"status": "resolved", "payload": {"yes": True}}, "Done: Delete task 'call mom'."),
        ({"status": "resolved", "payload": {"yes": False}}, "OK, I won't do that."),
        ({"status": "cancelled"}, "OK, I won't do that."),
    ],
)
async def test_a_confirmation_is_an_interrupt_and_resume_answers_it(
    client: httpx.AsyncClient, resume: dict[str, Any], reply: str
) -> None:
    first = state_of(await run(client, run_input("add a task to call mom")))
    asked = await run(client, run_input("delete call mom", run_id="r2", state=first))
    assert state_of(asked)["conversation_id"] == first["conversation_id"]
    outcome = asked[-1].outcome
    assert isinstance(outcome, RunFinishedInterruptOutcome)
    (interrupt,) = outcome.interrupts
    assert interrupt.message == "Delete task 'call mom'"
    assert interrupt.metadata is not None
    assert interrupt.metadata["tool_name"] == "delete_task"
    answered = await run(client, run_input(run_id="r3", state=first, resume=[{"interruptId": interrupt.id, **resume}]))
    assert text_of(answered).startswith(reply)
    assert answered[-1].outcome.type == "success"
    said = (await client.get(f"/api/conversations/{first['conversation_id']}")).json()["messages"][-2]["content"]
    assert said == (
        "Declined the question." if resume["status"] == "cancelled" else "Yes." if resume["payload"]["yes"] else "No."
    )


async def test_a_stop_reaches_a_run_whose_client_reads_the_public_sentence(
    client: httpx.AsyncClient, environment: Environment
) -> None:
    await place_stop(environment.database, Stop(number=0, scope=StopScope.EVERYTHING, reason="wrong", say="We look into it."))
    refused = await client.post("/agui", json=run_input("add a task to call mom"))
    error = {"code": "STOPPED", "message": "We look into it. Nothing was done."}
    assert (refused.status_code, refused.json()["error"]) == (503, error)
    assert await environment.descriptions() == []


async def test_the_messages_of_a_reply_have_the_names_of_their_authors(client: httpx.AsyncClient) -> None:
    added = await run(client, run_input("add a task to call mom"))
    first = state_of(added)
    (interrupt,) = (await run(client, run_input("delete call mom", run_id="r2", state=first)))[-1].outcome.interrupts
    resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": {"yes": True}}]
    deleted = await run(client, run_input(run_id="r3", state=first, resume=resume))
    assert [event.name for events in (added, deleted) for event in events if event.type == "TEXT_MESSAGE_START"] == [
        "model",
        "code",
    ]


def test_each_line_of_a_reply_is_a_message_of_its_author_and_one_of_an_earlier_record_has_none() -> None:
    parts = [
        {"author": "model", "text": "I have added it."},
        {"author": "code", "text": "\n  Answer:\n"},
        {"author": "server", "text": "> no"},
    ]
    reply = {"message_id": "m1", "decision_id": "d1", "conversation_id": "c1", "reply": "".join(one["text"] for one in parts)}
    translation = Translation(RunAgentInput.model_validate(run_input("hi")))

    def messages(decision: dict[str, Any]) -> list[tuple[str, str | None]]:
        events = translation.of(TurnEvent(EventKind.DECISION, {**reply, "decision": decision}))
        return [(event.message_id, event.name) for event in events if isinstance(event, TextMessageStartEvent)]

    assert messages({"authors": {"reply": parts}}) == [("m1", "model"), ("m1:2", "code"), ("m1:3", "server")]
    assert messages({}) == [("m1", None)]


async def test_a_typed_yes_answers_only_the_question_in_the_state_of_its_client(client: httpx.AsyncClient) -> None:
    first = state_of(await run(client, run_input("add a task to call mom")))
    asked = state_of(await run(client, run_input("delete call mom", run_id="r2", state=first)))
    elsewhere = await run(client, run_input("yes", run_id="r3", state=first))
    assert text_of(elsewhere).startswith("Your answer may belong to another question, so nothing was done.")
    done = await run(client, run_input("yes", run_id="r4", state=asked))
    assert text_of(done) == "Done: Delete task 'call mom'."


async def test_a_run_that_is_sent_again_gets_the_same_answer(client: httpx.AsyncClient) -> None:
    body = run_input("add a task to call mom")
    once, again = await run(client, body), await run(client, body)
    assert state_of(once) == state_of(again)
    assert "call mom" in text_of(await run(client, run_input("show my tasks", run_id="r2")))
    assert text_of(await run(client, run_input("show my tasks", run_id="r3"))).count("call mom") == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        run_input(),
        run_input("hi", state={"conversation_id": 7}),
        run_input("hi", messages=[{"id": "m1", "role": "assistant", "content": "hi"}]),
        run_input(resume=[{"interruptId": "p1", "status": "resolved", "payload": "yes"}]),
        run_input(resume=[{"interruptId": "p1", "status": "cancelled"}, {"interruptId": "p2", "status": "cancelled"}]),
        run_input(resume=[{"interruptId": "", "status": "cancelled"}]),
        run_input(resume=[{"interruptId": "p" * 256, "status": "cancelled"}]),
        run_input("hi", run_id="not a key"),
        run_input("hi", messages=[{"id": "m1", "role": "user", "content": [{"type": "text", "text": "hi"}] * 1001}]),
        run_input(
            messages=[{"id": "m1", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "x"}}]}]
        ),
    ],
)
async def test_a_run_that_cannot_be_read_is_refused(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await client.post("/agui", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("payload", [{}, {"yes": 1}, {"yes": True, "read": "x" * 65}, {"yes": True, "state": "late"}])
async def test_a_refused_answer_is_explained_by_the_fields_of_the_protocol(client: httpx.AsyncClient, payload: Any) -> None:
    resume = [{"interruptId": "p1", "status": "resolved", "payload": payload}]
    answer = await client.post("/agui", json=run_input(resume=resume))
    text = 'One interrupt is answered at a time, by its id, with the payload {"yes": true} or {"yes": false}.'
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, text)


async def test_a_thread_id_that_cannot_be_sent_back_is_refused_before_the_turn(client: httpx.AsyncClient) -> None:
    body = json.dumps(run_input("add a task to call mom", threadId="\ud800"))
    answer = await client.post("/agui", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert (await client.get("/api/decisions")).json()["items"] == []


def test_only_the_parts_that_a_turn_uses_are_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[Any] = []
    validate = RunAgentInput.model_validate
    # What reaches the validation of another library shows in no result.
    monkeypatch.setattr(RunAgentInput, "model_validate", lambda body: (validated.append(body), validate(body))[1])  # type: ignore[func-returns-value]
    many: list[Any] = [{}] * 10_000
    last = {"id": "m2", "role": "user", "content": "hi", "other": many}
    for body in (
        run_input(messages=[*many, last], tools=many, context=many, forwardedProps=many, other=many),
        run_input(messages=many, resume=[{"interruptId": "p1", "status": "cancelled"}, *many]),
    ):
        with contextlib.suppress(ServiceError):
            _read_run(body)
    assert len(validated) == 2
    assert all(len(json.dumps(body)) < 500 for body in validated)


async def test_without_the_extra_the_route_names_it(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The extra is installed here.
    monkeypatch.delitem(sys.modules, "graph_agent.integrations.agui")
    monkeypatch.setitem(sys.modules, "ag_ui", None)
    client = served(environment.runtime())
    answer = await client.post("/agui", json=run_input("hi"))
    sentence = "POST /agui needs the extra 'agui': pip install 'graph-agent[agui]'."
    assert (answer.status_code, answer.json()) == (404, {"error": {"code": "NOT_FOUND", "message": sentence}})
    assert (await client.post("/api/chat", json={"content": "hi"})).status_code == 200


async def test_a_run_may_name_the_time_zone_of_its_user(client: httpx.AsyncClient, environment: Environment) -> None:
    await run(client, run_input("add a task to call mom", forwardedProps={"time_zone": "Asia/Tokyo", "other": ["x"]}))
    (record,) = await environment.records()
    assert record.header.context.time_zone == "Asia/Tokyo"
    refused = await client.post("/agui", json=run_input("hi", forwardedProps={"time_zone": "Nowhere"}))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
