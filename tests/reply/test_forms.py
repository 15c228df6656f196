"""Reading the calls by which a model declares its reply."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.reply.forms import REPLY_FORM_DECLARATIONS, FormReply, join_forms

UNCLEAR = OutcomeCategory.UNCLEAR_INTENT


def form(name: str, **arguments: Any) -> FunctionCall:
    return FunctionCall(name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("calls", "beside", "reply"),
    [
        ([form("answer", text="Hi.", reports_change=False)], "", FormReply("answer", "Hi.")),
        ([form("answer", text="Hi.")], "beside", FormReply("answer", "Hi.")),
        ([form("answer", text="Added.", reports_change=True)], "", FormReply("answer", "Added.", reports_change=True)),
        ([form("answer", text="Added.", reports_change="true")], "", FormReply("answer", "Added.")),
        ([form("answer", text="Added.", reports_change=1)], "", FormReply("answer", "Added.")),
        (
            [form("ask_user", question="A?", reason="missing_context")],
            "",
            FormReply("question", "A?", OutcomeCategory.MISSING_CONTEXT),
        ),
        ([form("ask_user", question="A?")], "", FormReply("question", "A?", UNCLEAR)),
        ([form("ask_user", question=" ", reason=["x"])], "B?", FormReply("question", "B?", UNCLEAR)),
        ([form("ask_user", question=None)], "  ", None),
        ([form("decline", text="No.")], "", FormReply("refusal", "No.")),
        ([form("decline", text="No.")], "beside", FormReply("refusal", "No.")),
        ([form("decline")], "", None),
        ([], "beside", None),
        ([form("answer", text="A."), form("answer", text="B.")], "", FormReply("answer", "A.\n\nB.")),
        ([form("answer", text="A."), form("decline", text=" A. ")], "", FormReply("answer", "A.")),
        ([form("answer", text="A."), form("decline")], "beside", FormReply("answer", "A.")),
        ([form("decline", text="A."), form("decline", text="B.")], "", FormReply("refusal", "A.\n\nB.")),
        (
            [form("answer", text="Added.", reports_change=True), form("ask_user", question="Which?")],
            "",
            FormReply("question", "Added.\n\nWhich?", UNCLEAR, reports_change=True),
        ),
        ([form("answer"), form("decline")], "beside", FormReply("answer", "beside")),
    ],
)
def test_forms_declare_one_reply(calls: list[FunctionCall], beside: str, reply: FormReply | None) -> None:
    assert join_forms(calls, beside) == reply


def test_each_form_says_that_it_ends_the_turn() -> None:
    for declaration in REPLY_FORM_DECLARATIONS:
        assert "The user reads" in declaration.description
        assert "ends your turn. Call it alone, after the last tool has returned." in declaration.description
