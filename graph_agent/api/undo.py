"""The undo of decisions: whether it is possible, and the question about it. The yes is an answer of `POST /api/chat`."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.chat import IdempotencyKey, answered, waited_seconds
from graph_agent.api.services import services
from graph_agent.chat.answer import ChatReply
from graph_agent.models.base import Frozen

router = APIRouter(prefix="/api", tags=["decisions"])


class UndoableCall(Frozen):
    """A change of the decision that can be undone now."""

    sequence: int
    tool_name: str
    """The tool that undoes it."""
    until: datetime


class UndoState(Frozen):
    """The part of a decision that the caller can undo now."""

    calls: list[UndoableCall]
    """The last change first, as it is undone. Empty if nothing can be undone."""
    until: datetime | None
    """The end of the time in which all of it can be undone."""
    problem: str | None
    """The reason why nothing can be undone, a sentence."""
    unknown: bool
    """True if it is not known of a change whether it was done: once that is learned, it may be undone."""
    again: bool
    """True if a plan can do changes of the decision again: `POST /api/decisions/{id}/mandate` asks about it."""


@router.get("/decisions/{decision_id}/undo", responses=ERRORS_BY_ID)
async def undo_state(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> UndoState:
    """Return what of a decision of the caller can be undone now, and until when. Nothing is called."""
    chat = services(request).runtime.chat
    _, found = await chat.undoable(caller.user_id, decision_id)
    again = await chat.mandates.repeatable(caller.user_id, decision_id.lower())
    calls = [
        UndoableCall(sequence=undone.sequence, tool_name=call.name, until=undone.until)
        for call, undone in zip(found.called, found.undone, strict=True)
    ]
    return UndoState(calls=calls, until=found.until, problem=found.problem, unknown=found.unknown, again=again.plan is not None)


@router.post(
    "/decisions/{decision_id}/undo",
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 415, 422, 429, 503, 504),
)
async def undo(
    request: Request, caller: AuthenticatedCaller, decision_id: IdInPath, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Ask the caller about the undo of a decision of theirs, in its conversation.

    The reply has the question, which `POST /api/chat` answers by its id, or why nothing is undone. 409 with NOT_UNDOABLE if
    nothing can be undone.
    """
    state, waited = services(request), waited_seconds(request)
    starting = state.turn_admission.start(
        caller.user_id,
        lambda: state.runtime.chat.start_undo(
            caller.user_id,
            decision_id,
            idem_key=idempotency_key,
            roles=caller.roles,
            arrived_at=state.runtime.clock.monotonic() - waited,
        ),
        waited=waited,
    )
    return await answered(starting)
