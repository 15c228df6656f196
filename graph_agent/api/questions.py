"""The questions that wait for people: the caller's own yes or no, and the approval of calls of others.

The caller lists what waits, reads one question, and answers with the digest of what was read. Who answers is the caller: no
field names a person. Reading changes nothing, so a program that opens every link answers nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field, StrictBool
from starlette.responses import JSONResponse

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.chat import IdempotencyKey, Limit, to_completion, waited_seconds
from graph_agent.api.services import services
from graph_agent.chat.answer import ChatReply
from graph_agent.chat.page_keys import MAX_KEY
from graph_agent.chat.question_view import ApprovalView, QuestionList, QuestionSummary
from graph_agent.chat.questions import GivenAnswer, Person, QuestionService
from graph_agent.chat.service import well_formed_id
from graph_agent.models.approval import MAX_REASON, ApproverIdentity
from graph_agent.models.base import Frozen
from graph_agent.models.decision import StorableText
from graph_agent.net.bearer_tokens import Caller
from graph_agent.question.inbox import Which

router = APIRouter(prefix="/api/questions", tags=["questions"])

_MAX_SIGNATURE = 4_000
_ERRORS = errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504)


class QuestionAnswerRequest(Frozen):
    """The caller's answer to a question. It is final."""

    yes: StrictBool = Field(description="True to confirm or approve what it asks, false to decline or deny it, which ends it.")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", description="The `digest` of the question that the caller has read.")
    role: StorableText | None = Field(
        default=None, max_length=255, description="To approve: the role in which the caller answers; by default a needed one."
    )
    reason: StorableText = Field(default="", max_length=MAX_REASON, description="Why. To deny a call of others needs a reason.")
    signature: StorableText = Field(
        default="", max_length=_MAX_SIGNATURE, description="An SSH signature, if the installation asks approvers for it."
    )


class AnsweredQuestion(Frozen):
    """A question after an answer."""

    question: ApprovalView | QuestionSummary
    reply: ChatReply | None
    """For a question to the requester: the reply of the turn that followed."""


@router.get("", responses=errors(401, 403, 422, 503))
async def list_questions(
    request: Request,
    caller: AuthenticatedCaller,
    which: Annotated[
        Which,
        Query(
            description="`for_me`: those that wait for the caller's answer, the oldest first. `own`: the caller's own to "
            "others. `ended`: those that have ended and asked the caller."
        ),
    ] = Which.FOR_ME,
    limit: Limit = 50,
    before: Annotated[str | None, Query(max_length=MAX_KEY, description="The `next` of the page before.")] = None,
) -> QuestionList:
    """List questions: the caller's own for a yes or no, of all conversations and of the gateway, and requests for approval."""
    return await _questions(request).inbox(_person(caller), which, limit, before)


@router.get("/{question_id}", responses=ERRORS_BY_ID)
async def show_question(request: Request, caller: AuthenticatedCaller, question_id: IdInPath) -> ApprovalView | QuestionSummary:
    """Return everything about one question, and what the caller's approval would do now."""
    return await _questions(request).view(well_formed_id(question_id), _person(caller))


@router.post(
    "/{question_id}/answer",
    response_model=AnsweredQuestion,
    responses=_ERRORS,
    openapi_extra=json_body(QuestionAnswerRequest),
)
async def answer_question(
    request: Request, caller: AuthenticatedCaller, question_id: IdInPath, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Answer a question. The same answer again changes nothing, and another one of the same person is refused."""
    given = await read_model(request, QuestionAnswerRequest)
    state, waited = services(request), waited_seconds(request)
    authenticated = state.authenticator.tokens is not None
    identity = ApproverIdentity.TOKEN if authenticated else ApproverIdentity.ASSERTED
    answering = _questions(request).answer(
        well_formed_id(question_id),
        _person(caller),
        GivenAnswer(**dict(given), identity=identity),
        idem_key=idempotency_key,
        arrived_at=state.runtime.clock.monotonic() - waited,
        admit=partial(state.turn_admission.start, caller.user_id, waited=waited),
    )
    answered = await to_completion(answering)
    reply = None if answered.reply is None else answered.reply.reply_json()
    return JSONResponse({"question": answered.question.to_json(), "reply": reply})


@router.post("/{question_id}/cancel", responses=_ERRORS)
async def cancel_question(request: Request, caller: AuthenticatedCaller, question_id: IdInPath) -> QuestionSummary:
    """Withdraw a question about calls of the caller."""
    return await _questions(request).cancel(well_formed_id(question_id), _person(caller))


def _questions(request: Request) -> QuestionService:
    return services(request).runtime.chat.questions


def _person(caller: Caller) -> Person:
    return Person(caller.user_id, caller.roles)
