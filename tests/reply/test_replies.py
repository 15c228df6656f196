"""Fixed replies, receipts, and what may enter a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import LLMErrorCode
from graph_agent.models.result_size import MAX_RESULT_BYTES, fit_result
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.authored import by_code, by_server, plain
from graph_agent.reply.fixed import CAP_REPLY, failure_reply, with_receipts
from graph_agent.reply.text import one_line
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.words.receipts import added_rows, receipt
from graph_agent.words.said import Known, described_by, say


def test_the_fixed_replies_are_the_contract_sentences() -> None:
    assert failure_reply(None) == "I'm having trouble processing your request. Please try again."
    assert failure_reply(LLMErrorCode.TIMEOUT) == failure_reply(None)
    assert failure_reply(LLMErrorCode.RATE_LIMITED) == "I'm receiving too many requests. Please wait a moment."
    assert CAP_REPLY == "That request is too complex. Could you break it into smaller steps?"


@pytest.mark.parametrize(
    ("done", "unknown", "expected"),
    [
        ([], [], "No."),
        (["Add task 'a'", "Add task 'b'"], [], "No. Already done: Add task 'a'; Add task 'b'."),
        ([], ["x"], "No. Not certain: x."),
        (["a"], ["b"], "No. Already done: a. Not certain: b."),
    ],
)
def test_a_fixed_reply_is_followed_by_what_was_done(done: list[str], unknown: list[str], expected: str) -> None:
    assert plain(with_receipts(by_code("No."), list(map(by_server, done)), list(map(by_server, unknown)))) == expected


LINES = "## Available Tools\n- add_task: Create new tasks\n- delete_task: Delete tasks\n"


def rule(**traits: Any) -> ToolRule:
    named = {tool.name: ToolTraits(**({"read_only": tool.name == "list_tasks"} | traits)) for tool in TASK_TOOLS}
    return compile_policy(Constitution.parse(LINES), TASK_TOOLS, named).rules["add_task"]


CUT = f"Create new tasks (path 'b.txt'); added: receipt '{'x' * 99}… (9,000,000 characters)'"
HIDDEN = "Create new tasks (path 'b.txt'); added: receipt '‹U+0000›‹U+200B›‹U+202E›'"


@pytest.mark.parametrize(
    ("traits", "result", "line"),
    [
        (
            {"ledger": True},
            ToolResult(success=True, data={"receipt": "it was\n'x'\u202e"}),
            "Create new tasks (path 'b.txt'); added: receipt \"it was‹U+000A›'x'‹U+202E›\"",
        ),
        (
            {"ledger": True},
            ToolResult(success=True, data={"preview": "b", "receipt": None, "id": 7}),
            "Create new tasks: 'b'",
        ),
        ({"ledger": True, "title": "Add task"}, ToolResult(success=True, data={}), "Add task (path 'b.txt')"),
        (
            {"ledger": True},
            ToolResult(success=True, data={"receipt": "ran `delete_task` for add-task"}),
            "Create new tasks (path 'b.txt'); added: receipt 'ran delete task for add task'",
        ),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": "\x00\u200b\u202e"}), HIDDEN),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": "x" * 9_000_000}), CUT),
        ({"ledger": True}, ToolResult(success=True, data={"receipt": ["added"]}), "Create new tasks (path 'b.txt')"),
        ({"title": "delete_task"}, ToolResult(success=True), "delete task (path 'b.txt')"),
        ({}, ToolResult(success=True, data={"receipt": "a third party's words"}), "Create new tasks (path 'b.txt')"),
        ({"read_only": True}, ToolResult(success=True, data={"receipt": "read"}), None),
        ({}, ToolResult(success=False, error_code=ToolErrorCode.NOT_FOUND), None),
        (
            {"title": "Add task"},
            ToolResult(success=False, error_code=ToolErrorCode.TIMEOUT_ERROR),
            "not known whether this was done: Add task (path 'b.txt')",
        ),
    ],
)
def test_a_receipt_says_what_was_really_done(traits: dict[str, Any], result: ToolResult, line: str | None) -> None:
    made = rule(**traits)
    given = {"path": "b.txt"}
    said = say(made, given, Known().after(made, result))
    added = added_rows(made, given, said, result) if described_by(made, result) else ()
    assert plain(receipt(made, said, result, added)) == (line or "")


def test_a_receipt_without_arguments_is_the_title_alone() -> None:
    made = rule(title="Empty the trash")
    assert receipt(made, say(made, {}), ToolResult(success=True)) == by_code("Empty the trash")


def test_each_argument_of_a_receipt_is_shortened_by_itself() -> None:
    made = rule(title="Write file")
    line = receipt(made, say(made, {"text": "x" * 500, "path": "b\n.txt"}), ToolResult(success=True))
    assert plain(line) == f"Write file (text '{'x' * 79}… (500 characters)', path 'b‹U+000A›.txt')"


def test_a_text_in_a_receipt_cannot_pass_for_another_receipt_or_a_sentence_of_the_runtime() -> None:
    for text in ("a; Delete task 'tax return'", "a. Nothing else was changed", "a', to = 'boss", "true", ""):
        made = rule(title="Send mail")
        line = plain(receipt(made, say(made, {"text": text}), ToolResult(success=True)))
        assert line == (f"Send mail (text '{text}')" if "'" not in text else f'Send mail (text "{text}")')


def test_one_line_cuts_with_an_ellipsis() -> None:
    assert one_line("a\tb\x00\x1bc\u2028d", 80) == "a b‹U+0000›‹U+001B›c d"
    assert one_line("x" * 81, 80) == "x" * 79 + "…"


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


def test_a_policy_snapshot_is_rebuilt_from_its_texts() -> None:
    traits = {tool.name: ToolTraits(read_only=tool.name == "list_tasks", ledger=True, title=tool.name) for tool in TASK_TOOLS}
    policy = compile_policy(Constitution.load(), TASK_TOOLS, traits)
    snapshot = PolicySnapshot(policy, AgentEngineConfig(max_iterations=7), "another prompt")
    again = PolicySnapshot.from_texts(snapshot.texts, snapshot.digests)
    assert again.digests == snapshot.digests
    assert again.config.max_iterations == 7
    assert again.policy.tools_json() == policy.tools_json()
    assert snapshot.texts[snapshot.digests["constitution"]] == Constitution.load().text
