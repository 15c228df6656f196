"""Fixed replies, receipts, reply forms, and what may enter a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from graph_agent.llm.declarations import TASK_TOOLS
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import FunctionCall, LLMErrorCode
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.budget import MAX_RESULT_BYTES, fit_result
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.receipts import one_line, receipt
from graph_agent.reply.fixed import CAP_REPLY, failure_reply, with_receipts
from graph_agent.reply.forms import FormReply, read_form
from graph_agent.policy.rules import ToolRule, compile_policy
from graph_agent.policy.snapshot import Terms


def test_the_fixed_replies_are_the_contract_sentences() -> None:
    assert failure_reply(None) == "I'm having trouble processing your request. Please try again."
    assert failure_reply(LLMErrorCode.TIMEOUT) == failure_reply(None)
    assert failure_reply(LLMErrorCode.RATE_LIMITED) == "I'm receiving too many requests. Please wait a moment."
    assert CAP_REPLY == "That request is too complex. Could you break it into smaller steps?"


@pytest.mark.parametrize(
    ("done", "unknown", "told"),
    [
        ([], [], "No."),
        (["added 'a'", "added 'b'"], [], "No. Already done: added 'a'; added 'b'."),
        ([], ["x"], "No. Not certain: x."),
        (["a"], ["b"], "No. Already done: a. Not certain: b."),
    ],
)
def test_a_fixed_reply_is_followed_by_what_was_done(done: list[str], unknown: list[str], told: str) -> None:
    assert with_receipts("No.", done, unknown) == told


def rule(**traits: Any) -> ToolRule:
    named = {tool.name: ToolTraits(**traits) for tool in TASK_TOOLS}
    return compile_policy(Constitution.load(), TASK_TOOLS, named).rules["add_task"]


@pytest.mark.parametrize(
    ("traits", "result", "told"),
    [
        ({"ledger": True}, ToolResult(success=True, data={"receipt": "added\n'x'\u202e"}), "added 'x'"),
        ({"ledger": True, "title": "Add task"}, ToolResult(success=True, data={}), "Add task"),
        (
            {"ledger": True},
            ToolResult(success=True, data={"receipt": "ran `delete_task` for add-task"}),
            "ran delete task for add task",
        ),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": "\x00\u200b\u202e"}), "Create new tasks"),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": "x" * 9_000_000}), "x" * 159 + "…"),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": ["added"]}), "Create new tasks"),
        ({"title": "delete_task\x1b[31m"}, ToolResult(success=True), "delete task[31m"),
        ({}, ToolResult(success=True, data={"receipt": "a stranger's word"}), "Create new tasks"),
        ({"read_only": True}, ToolResult(success=True, data={"receipt": "read"}), None),
        ({}, ToolResult(success=False, error_code=ToolErrorCode.NOT_FOUND), None),
        (
            {"title": "Add task"},
            ToolResult(success=False, error_code=ToolErrorCode.TIMEOUT_ERROR),
            "not known whether this was done: Add task",
        ),
    ],
)
def test_a_receipt_tells_what_was_really_done(traits: dict[str, Any], result: ToolResult, told: str | None) -> None:
    assert receipt(rule(**traits), result) == told


def test_one_line_cuts_with_an_ellipsis() -> None:
    assert one_line("a\tb\x00\x1bc\u2028d", 80) == "a bc d"
    assert one_line("x" * 81, 80) == "x" * 79 + "…"


@pytest.mark.parametrize(
    ("call", "spoken", "read"),
    [
        (("ask_user", {"question": "A?", "reason": "missing_context"}), None, ("question", "A?", "MISSING_CONTEXT")),
        (("ask_user", {"question": "A?"}), None, ("question", "A?", "UNCLEAR_INTENT")),
        (("ask_user", {"question": " ", "reason": ["x"]}), "B?", ("question", "B?", "UNCLEAR_INTENT")),
        (("decline", {"message": "No."}), "spoken", ("refusal", "No.", None)),
        (("decline", {}), None, None),
        (("ask_user", {"question": None}), "  ", None),
    ],
)
def test_a_reply_form_is_read(call: tuple[str, dict[str, Any]], spoken: str | None, read: Any) -> None:
    found = read_form(FunctionCall(name=call[0], arguments=call[1]), spoken)
    expected = read and FormReply(read[0], read[1], OutcomeCategory[read[2]] if read[2] else None)
    assert found == expected


def test_a_result_that_fits_is_left_alone() -> None:
    small = {"success": True, "data": {"tasks": [{"id": 1}]}}
    assert fit_result(small) is small


def test_a_long_list_is_cut_between_items_and_says_so() -> None:
    tasks = [{"id": str(n), "description": "x" * 90} for n in range(200)]
    cut = fit_result({"success": True, "data": {"tasks": tasks, "count": 200}})
    kept = cut["data"]["tasks"]
    assert kept == tasks[: len(kept)]
    assert cut["truncated"] == f"only the first {len(kept)} of 200 are shown"
    assert MAX_RESULT_BYTES - 300 < len(json.dumps(cut)) <= MAX_RESULT_BYTES


def test_a_result_without_items_to_cut_loses_its_data() -> None:
    cut = fit_result({"success": True, "data": {"text": "x" * 10_000}})
    assert cut == {"success": True, "data": None, "truncated": "the result is too large to show"}


def test_terms_are_made_again_from_their_texts() -> None:
    traits = {tool.name: ToolTraits(ledger=True, title=tool.name) for tool in TASK_TOOLS}
    policy = compile_policy(Constitution.load(), TASK_TOOLS, traits)
    terms = Terms(policy, AgentEngineConfig(max_iterations=7), "another prompt")
    again = Terms.from_texts(terms.texts, terms.digests)
    assert again.digests == terms.digests
    assert again.config.max_iterations == 7
    assert again.policy.tools_json() == policy.tools_json()
    assert terms.texts[terms.digests.constitution] == Constitution.load().text
