"""The two reply forms: how a model tells what kind of reply it gives. Declared as functions, never sent to a tool server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import FunctionCall, ToolDeclaration

ASK_USER = "ask_user"
DECLINE = "decline"

QUESTION_REASONS = {
    "unclear_intent": OutcomeCategory.UNCLEAR_INTENT,
    "multiple_matches": OutcomeCategory.MULTIPLE_MATCHES,
    "missing_context": OutcomeCategory.MISSING_CONTEXT,
}

REPLY_FORM_DECLARATIONS = (
    ToolDeclaration(
        name=ASK_USER,
        description="Ask the user one question and end your turn. Use alone, when you cannot go on without an answer.",
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question, as the user will read it"},
                "reason": {
                    "type": "string",
                    "enum": list(QUESTION_REASONS),
                    "description": "Why: the wish is unclear, several things match, or something referred to is not known",
                },
            },
            "required": ["question", "reason"],
        },
    ),
    ToolDeclaration(
        name=DECLINE,
        description="Turn the request down politely and end your turn. Use alone, for what you cannot or must not do.",
        parameters={
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What the user will read"}},
            "required": ["message"],
        },
    ),
)
REPLY_FORMS = frozenset(declaration.name for declaration in REPLY_FORM_DECLARATIONS)


@dataclass(frozen=True, slots=True)
class FormReply:
    """What a reply form says. `reason` goes with a question."""

    kind: Literal["question", "refusal"]
    text: str
    reason: OutcomeCategory | None = None


def read_form(call: FunctionCall, spoken: str | None = None) -> FormReply | None:
    """Read one reply form; `spoken`, the text beside it, stands in for a missing one. None if there is nothing to say."""
    given = call.arguments.get("question" if call.name == ASK_USER else "message")
    text = (given if isinstance(given, str) and given.strip() else spoken) or ""
    if not text.strip():
        return None
    if call.name == DECLINE:
        return FormReply("refusal", text)
    reason = call.arguments.get("reason")
    known = QUESTION_REASONS.get(reason) if isinstance(reason, str) else None
    return FormReply("question", text, known or OutcomeCategory.UNCLEAR_INTENT)
