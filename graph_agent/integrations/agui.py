"""POST /agui: a turn in the AG-UI protocol 1.0, for front ends that speak it.

A run is a turn. Only the last user message of a request is used, because the server stores the conversation. The first run
returns the conversation's id in the state, and the client sends that state with every later run. A confirmation ends the run
with the outcome `interrupt`; the next run brings the answer in `resume`. The run's id is the idempotency key: a run that is
sent again gets the same answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from ag_ui import core
from fastapi import APIRouter, Request
from pydantic import ValidationError
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.bodies import Answers, MessageRequest, errors, invalid, read_object, validated
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.chat import start_streamed_turn, stream_of
from graph_agent.api.errors import stream_error_body
from graph_agent.chat.stream import NumberedEvent
from graph_agent.models.decision import PendingAction, unstorable
from graph_agent.reply.fixed import sentences_before
from graph_agent.turn.events import EventKind, TurnEvent

PATH = "/agui"
MAX_BODY_BYTES = 1024 * 1024
"""More than other routes accept, because a client sends the whole conversation with every run."""

MAX_PARTS = 1000
"""The largest number of parts of the last message."""

_USED = ("threadId", "thread_id", "runId", "run_id", "state", "messages", "resume")

_YES_OR_NO: dict[str, Any] = {
    "type": "object",
    "properties": {"yes": {"type": "boolean"}, "read": {"type": "string"}},
    "required": ["yes"],
    "additionalProperties": False,
}
"""`read` is the `whole_digest` of an interrupt with `by_id_only`, if the client has shown all its arguments."""

_OF_INTERRUPT = ("tool_name", "arguments", "calls", "by_id_only", "whole_digest", "object_text")

router = APIRouter()


@router.post(
    PATH,
    tags=["agui"],
    response_class=Response,
    responses={
        200: {"description": "The events of AG-UI.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    },
    # The protocol has its own schema, with names that ours have too.
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def run_agent(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run one turn and stream its events. The turn continues if the client disconnects."""
    run = _read_run(await read_object(request, MAX_BODY_BYTES))
    _, events = await start_streamed_turn(request, caller, _parse_message(run), run.run_id)
    return stream_of(request, caller, _messages(run, events), admitted=True)


def _read_run(body: dict[str, Any]) -> core.RunAgentInput:
    """Return the run. Raises `ServiceError` VALIDATION_ERROR."""
    try:
        run = core.RunAgentInput.model_validate(_without_unused(body))
    except (ValidationError, RecursionError):
        raise invalid("The request body must be the RunAgentInput of AG-UI 1.0.") from None
    if unstorable(run.thread_id):
        raise invalid("The thread id contains characters that are not valid text.")
    return run


def _without_unused(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a run that a turn uses.

    They are validated in the event loop, which hundreds of thousands of invalid elements would block for seconds.
    """
    used = {name: body[name] for name in _USED if name in body}
    messages, resume = body.get("messages"), body.get("resume")
    if isinstance(resume, list) and resume:
        used |= {"resume": resume[:2], "messages": []}
    elif isinstance(messages, list):
        last = messages[-1] if messages else None
        if not isinstance(last, dict) or last.get("role") != "user":
            raise invalid("The last message must be the user's.")
        content = last.get("content")
        if isinstance(content, list) and len(content) > MAX_PARTS:
            raise invalid(f"A message has at most {MAX_PARTS} parts.")
        used["messages"] = [{name: last[name] for name in ("id", "role", "content") if name in last}]
    props = body.get("forwardedProps", body.get("forwarded_props"))
    zone = props.get("time_zone") if isinstance(props, dict) else None
    return {"tools": [], "context": [], **used, "forwardedProps": {} if zone is None else {"time_zone": zone}}


def _parse_message(run: core.RunAgentInput) -> MessageRequest:
    """Return the message or the answer that a run brings. Raises `ServiceError` VALIDATION_ERROR if there is none."""
    state = run.state if isinstance(run.state, dict) else {}
    sent = {"conversation_id": state.get("conversation_id")}
    sent |= run.forwarded_props or {}
    if run.resume:
        declined = {"content": "Declined the question."} if run.resume[0].status == "cancelled" else {}
        return validated(MessageRequest, {**sent, **declined, "answers": _read_answer(run.resume)})
    # The question that the client shows: its state is the one that its last run ended with.
    if isinstance(decision := state.get("decision"), dict):
        pending = decision.get("pending_action")
        sent["shown"] = {"pending_action": pending.get("id") if isinstance(pending, dict) else None}
    last = run.messages[-1] if run.messages else None
    if not isinstance(last, core.UserMessage):
        raise invalid("The last message must be the user's.")
    if isinstance(last.content, str):
        return validated(MessageRequest, {**sent, "content": last.content})
    texts = [part.text for part in last.content if part.type == "text"]
    if len(texts) < len(last.content):
        raise invalid("A message may contain only text.")
    return validated(MessageRequest, {**sent, "content": "\n".join(texts)})


def _read_answer(entries: list[core.ResumeEntry]) -> Answers:
    """Return the user's yes or no. An interrupt that is cancelled is a no."""
    entry = entries[0]
    payload = {"yes": False} if entry.status == "cancelled" else entry.payload
    if len(entries) == 1 and isinstance(payload, dict) and payload.keys() <= _YES_OR_NO["properties"].keys():
        # The fields that a violation names are not those of the request.
        with suppress(ValidationError):
            return Answers(**payload, pending_action=entry.interrupt_id)
    raise invalid('One interrupt is answered at a time, by its id, with the payload {"yes": true} or {"yes": false}.')


async def _messages(run: core.RunAgentInput, events: AsyncIterator[NumberedEvent]) -> AsyncIterator[bytes]:
    translation = Translation(run)
    try:
        ready = _encode(core.RunStartedEvent(thread_id=run.thread_id, run_id=run.run_id))
        async for numbered in events:
            ready += b"".join(map(_encode, translation.of(numbered.event)))
            if not numbered.more:
                yield ready
                ready = b""
    except Exception as failure:
        error = stream_error_body(failure)["error"]
        yield _encode(core.RunErrorEvent(message=error["message"], code=error["code"]))


def _encode(event: core.BaseEvent) -> bytes:
    # With plain line feeds, because the protocol's own client does not know CRLF.
    return ServerSentEvent(event.model_dump_json(by_alias=True), sep="\n").encode()


class Translation:
    """Translates the events of one turn."""

    def __init__(self, run: core.RunAgentInput) -> None:
        self._run = run
        self._state: str | None = None

    def of(self, event: TurnEvent) -> Iterator[core.BaseEvent]:
        """Yield the events of the protocol for one event of the turn."""
        data = event.data
        match event.kind:
            case EventKind.STATE:
                yield from self._leave_state()
                self._state = data["state"]
                yield core.StepStartedEvent(step_name=data["state"])
            case EventKind.PROGRESS:
                yield core.ActivitySnapshotEvent(
                    message_id=f"{self._run.run_id}:progress", activity_type="PROGRESS", content=data
                )
            case EventKind.TOOL_CALL:
                call_id = f"{self._run.run_id}:{data['sequence']}"
                yield core.ToolCallStartEvent(tool_call_id=call_id, tool_call_name=data["tool_name"])
                yield core.ToolCallEndEvent(tool_call_id=call_id)
                shown = {name: data[name] for name in ("title", "disposition", "gate", "success", "error_code")}
                yield core.ToolCallResultEvent(message_id=f"{call_id}:result", tool_call_id=call_id, content=json.dumps(shown))
            case EventKind.DECISION:
                yield from self._leave_state()
                yield from self._end(data)

    def _end(self, reply: dict[str, Any]) -> Iterator[core.BaseEvent]:
        first_id = reply["message_id"] or reply["decision_id"]
        for number, (name, text) in enumerate(_by_author(reply), start=1):
            message_id = first_id if number == 1 else f"{first_id}:{number}"
            yield core.TextMessageStartEvent(message_id=message_id, role="assistant", name=name)
            yield core.TextMessageContentEvent(message_id=message_id, delta=text)
            yield core.TextMessageEndEvent(message_id=message_id)
        yield core.StateSnapshotEvent(snapshot={name: reply[name] for name in ("conversation_id", "decision_id", "decision")})
        yield core.RunFinishedEvent(thread_id=self._run.thread_id, run_id=self._run.run_id, outcome=_outcome(reply["decision"]))

    def _leave_state(self) -> Iterator[core.BaseEvent]:
        if self._state is not None:
            yield core.StepFinishedEvent(step_name=self._state)
        self._state = None


def _by_author(reply: dict[str, Any]) -> list[tuple[str | None, str]]:
    """Return the lines of the reply with the name of their author, or of each author of a line; None if it is not recorded."""
    authors = reply["decision"].get("authors")
    if authors is None:
        return [(None, reply["reply"])]
    lines: list[list[dict[str, str]]] = []
    for part in authors["reply"]:
        if not lines or part["text"].startswith("\n") or lines[-1][-1]["text"].endswith("\n"):
            lines.append([])
        lines[-1].append(part)
    return [
        (", ".join(dict.fromkeys(part["author"] for part in parts)), "".join(part["text"] for part in parts)) for parts in lines
    ]


def _outcome(decision: dict[str, Any]) -> core.RunFinishedSuccessOutcome | core.RunFinishedInterruptOutcome:
    pending = decision.get("pending_action")
    if pending is None:
        return core.RunFinishedSuccessOutcome()
    interrupt = core.Interrupt(
        id=pending["id"],
        reason="confirmation",
        message=" ".join([*sentences_before(PendingAction.model_validate(pending)), pending["description"]]),
        response_schema=_YES_OR_NO,
        expires_at=pending["expires_at"],
        metadata={name: pending[name] for name in _OF_INTERRUPT if name in pending},
    )
    return core.RunFinishedInterruptOutcome(interrupts=[interrupt])
