"""The questions to the user of a client, as forms, and what the user did with a form.

In the newest revision of MCP the result of a call has the form, and the client sends the call again with the answer. In those
before it the server asks while the call runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp import MCPError, types
from mcp.server import ServerRequestContext
from pydantic import ValidationError

from graph_agent.chat.answer import ChatAnswer
from graph_agent.gateway.answer import Answer
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction

Context = ServerRequestContext[Any, Any]

_KEY: Final = "confirmation"
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"yes": {"type": "boolean", "title": "Yes, go ahead", "default": False}},
    "required": ["yes"],
}


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The answer of a user to a form, or the way in which the user gave none."""

    yes: bool | None
    """None for neither a yes nor a no: the question stays open."""
    words: str
    """The user's message in the conversation and in the record."""


YES: Final = FormAnswer(True, "Yes.")
NO: Final = FormAnswer(False, "No.")
DECLINED: Final = FormAnswer(False, "Declined the question.")
CLOSED: Final = FormAnswer(None, "Closed the question without an answer.")
UNUSABLE: Final = FormAnswer(None, "Answered the question with neither yes nor no.")


def supports_elicitation(context: Context) -> bool:
    """True if the client can show a form to its user."""
    declared = context.session.client_capabilities
    elicitation = None if declared is None else declared.elicitation
    # A client that names no mode has forms only.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def input_request(question: str, pending: PendingAction) -> types.InputRequiredResult:
    """Return the result that asks for the answer; see `given_answer`."""
    asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=question, requested_schema=_FORM))
    return types.InputRequiredResult(input_requests={_KEY: asked}, request_state=json.dumps(pending.id))


def asked_id(request_state: str) -> str:
    """Return the id of the action that `input_request` has asked about, from the state that the client sends back."""
    return str(json.loads(request_state))


def given_answer(responses: Mapping[str, Any] | None) -> FormAnswer | None:
    """Return the answer with which a call is sent again; None if it has none."""
    response = (responses or {}).get(_KEY)
    if response is None:
        return None
    return _read(response) if isinstance(response, types.ElicitResult) else UNUSABLE


async def ask_mid_call(
    context: Context, question: Answer[str], answered: Coroutine[Any, Any, ChatAnswer | None]
) -> FormAnswer | ChatAnswer | None:
    """Ask the user while the call waits, as long as the question can be answered; None if the client did not answer.

    `answered` waits for an answer at another front door, which counts as well: its turn is returned, and the form is given up.
    """
    form, elsewhere = asyncio.ensure_future(_ask(context, question)), asyncio.ensure_future(answered)
    try:
        await asyncio.wait({form, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        if form.done():
            return form.result()
        # A question that has ended without an answer is still shown: its form says so when it is sent.
        return elsewhere.result() or await form
    finally:
        form.cancel()
        elsewhere.cancel()
        await asyncio.wait({form, elsewhere})


async def _ask(context: Context, question: Answer[str]) -> FormAnswer | None:
    try:
        async with asyncio.timeout(CONFIRMATION_LIFETIME.total_seconds()):
            result = await context.session.elicit_form(question.result, _FORM, related_request_id=context.request_id)
    except (TimeoutError, MCPError):
        return None
    except ValidationError:
        return UNUSABLE
    return _read(result)


def _read(result: types.ElicitResult) -> FormAnswer:
    if result.action == "cancel":
        return CLOSED
    if result.action == "decline":
        return DECLINED
    match (result.content or {}).get("yes"):
        case bool(yes):
            return YES if yes else NO
        case _:
            return UNUSABLE
