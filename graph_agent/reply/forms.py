"""The reply forms: the functions by which a model ends a turn and declares which kind of reply it gives.

They are declared to the model after the tools. A call of one is read here and never reaches a tool server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import FunctionCall, ToolDeclaration

ANSWER = "answer"
ASK_USER = "ask_user"
DECLINE = "decline"
PROPOSE_PLAN = "propose_plan"

QUESTION_REASONS = {
    "unclear_intent": OutcomeCategory.UNCLEAR_INTENT,
    "multiple_matches": OutcomeCategory.MULTIPLE_MATCHES,
    "missing_context": OutcomeCategory.MISSING_CONTEXT,
}


def _form(name: str, description: str, **properties: dict[str, Any]) -> ToolDeclaration:
    """Return the declaration of a form, all of whose `properties` are required."""
    return ToolDeclaration(
        name=name,
        description=f"{description} Calling this ends your turn. Call it alone, after the last tool has returned.",
        parameters={"type": "object", "properties": properties, "required": list(properties)},
    )


REPLY_FORM_DECLARATIONS = (
    _form(
        ANSWER,
        "Answer the user, or report what was done. The user reads `text`.",
        text={"type": "string", "description": "The answer, as the user will read it"},
        reports_change={
            "type": "boolean",
            "description": "True if `text` says that something was added, changed, completed or removed in this turn",
        },
    ),
    _form(
        ASK_USER,
        "Ask the user one question, when you cannot go on without the answer. "
        "The user reads `question` and answers in the next message.",
        question={"type": "string", "description": "The question, as the user will read it"},
        reason={
            "type": "string",
            "enum": list(QUESTION_REASONS),
            "description": "Why: the request is unclear, several things match it, or something in it is not known",
        },
    ),
    _form(
        DECLINE,
        "Decline a request that you cannot or must not carry out. The user reads `text`: politely say what you can help with.",
        text={"type": "string", "description": "The refusal, as the user will read it"},
    ),
)
REPLY_FORMS = frozenset(declaration.name for declaration in REPLY_FORM_DECLARATIONS)
"""The forms whose text the user reads, which every model is given."""

PLAN_DECLARATION = ToolDeclaration(
    name=PROPOSE_PLAN,
    description=(
        "Ask the user once for all changes that you are about to make, when there will be two rounds of changes or more. Read "
        "first: reading needs no yes. Propose the plan in place of your first change. After the yes you go on, and calls in "
        "the plan run without a question; others are asked about as before. For each argument of a line say what it may be: "
        '{"is": [VALUES]} for what you know, copied exactly; {"at_most": N} for a number; {"from": TOOL, "form": "code"} for a '
        "value that a later result of TOOL will bring, and that no result has brought yet (forms: code, number, link and "
        'address); {"own_text": true} for a text that you write yourself. Leave out the arguments that a call will not have. '
        "Calling this ends your turn. Call it alone, after the last tool has returned."
    ),
    parameters={
        "type": "object",
        "properties": {
            "lines": {
                "type": "array",
                "minItems": 1,
                "maxItems": 8,
                "items": {
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string", "description": "The tool that the line permits"},
                        "arguments": {"type": "object", "description": "For each argument what it may be"},
                        "times": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Once if left out"},
                        "sum": {
                            "type": "object",
                            "description": "For an argument that is a number the most that all calls have together",
                        },
                    },
                    "required": ["tool", "arguments"],
                },
            },
            "minutes": {
                "type": "integer",
                "minimum": 1,
                "maximum": 1440,
                "description": "How long it is needed; 60 if left out",
            },
        },
        "required": ["lines"],
    },
)
"""The form of a plan, which a model is given if plans may have lines at all. It has no text: code composes the card."""
ALL_FORMS = REPLY_FORMS | {PROPOSE_PLAN}

_TEXT_PARAMETER = {ANSWER: "text", ASK_USER: "question", DECLINE: "text"}
"""The parameter that has the text of a form."""

Kind = Literal["answer", "question", "refusal"]

_KINDS: dict[str, Kind] = {ASK_USER: "question", ANSWER: "answer", DECLINE: "refusal"}
"""The kind of reply that a form declares. If several forms are called, the first of these kinds counts."""


@dataclass(frozen=True, slots=True)
class FormReply:
    """The reply that a call of a reply form declares. `reason` is set for a question, and only then."""

    kind: Kind
    text: str
    reason: OutcomeCategory | None = None
    reports_change: bool = False
    """The model says that this turn changed something. False if it does not say so in a boolean."""


def read_form(call: FunctionCall) -> FormReply:
    """Return the reply that `call`, a call of a reply form, declares. Its text is empty if the form has none."""
    text = call.arguments.get(_TEXT_PARAMETER[call.name])
    # A value of a wrong type, such as a list, is no key of the table.
    reason = QUESTION_REASONS.get(str(call.arguments.get("reason")), OutcomeCategory.UNCLEAR_INTENT)
    return FormReply(
        _KINDS[call.name],
        text if isinstance(text, str) and text.strip() else "",
        reason=reason if call.name == ASK_USER else None,
        reports_change=call.name == ANSWER and call.arguments.get("reports_change") is True,
    )


def join_forms(calls: Sequence[FunctionCall], text_beside: str = "") -> FormReply | None:
    """Return the one reply that calls of reply forms declare together; None if it has no text.

    The texts are joined in order, equal ones once. It is a question if one form asks, else an answer if one answers, else a
    refusal. `text_beside`, the text of the same response, is used only if the forms have no text.
    """
    replies = [read_form(call) for call in calls]
    replies = [reply for reply in replies if reply.text] or [replace(reply, text=text_beside) for reply in replies]
    text = "\n\n".join(dict.fromkeys(reply.text.strip() for reply in replies))
    if not text:
        return None
    declared = min(replies, key=lambda reply: list(_KINDS.values()).index(reply.kind))
    return replace(declared, text=text, reports_change=any(reply.reports_change for reply in replies))
