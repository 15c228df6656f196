"""Questions to the user of a client, by elicitation.

In the newest revision of MCP the result of a call has the question, and the client sends the call again with the answer. In
those before it the server asks while the call runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from pydantic import ValidationError

from graph_agent.models.decision import CONFIRMATION_LIFETIME, ConfirmationAnswer, PendingAction

_KEY: Final = "confirmation"
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"yes": {"type": "boolean", "title": "Yes, go ahead", "default": False}},
    "required": ["yes"],
}


def supports_elicitation(context: ServerRequestContext[Any, Any]) -> bool:
    """True if the client can show a form to its user."""
    declared = context.session.client_capabilities
    if not context.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())):
        return False
    assert declared is not None
    assert declared.elicitation is not None
    # A client that names no mode has forms only.
    return declared.elicitation.form is not None or declared.elicitation.url is None


def input_request(question: str, pending: PendingAction) -> InputRequiredResult:
    """Return the result that asks for the answer; see `given_answer`."""
    asked = ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=_FORM))
    return InputRequiredResult(input_requests={_KEY: asked}, request_state=json.dumps(pending.id))


def given_answer(responses: Mapping[str, Any] | None, pending_id: Any) -> ConfirmationAnswer | None:
    """Return the answer with which a call is sent again; None if the user gave none."""
    response = (responses or {}).get(_KEY)
    return _answer(response, str(pending_id)) if isinstance(response, ElicitResult) else None


async def ask_mid_call(
    context: ServerRequestContext[Any, Any], question: str, pending: PendingAction
) -> ConfirmationAnswer | None:
    """Ask the user while the call waits, as long as the question can be answered; None if the user gave no answer."""
    try:
        async with asyncio.timeout(CONFIRMATION_LIFETIME.total_seconds()):
            result = await context.session.elicit_form(question, _FORM, related_request_id=context.request_id)
    except (TimeoutError, MCPError, ValidationError):
        return None
    return _answer(result, pending.id)


def _answer(result: ElicitResult, pending_id: str) -> ConfirmationAnswer | None:
    """Return a yes only for a form that says so; closing the form is no answer."""
    if result.action == "cancel":
        return None
    yes = result.action == "accept" and (result.content or {}).get("yes") is True
    return ConfirmationAnswer(pending_action=pending_id, yes=yes)
