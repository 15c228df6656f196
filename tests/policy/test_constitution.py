"""The constitution is prompt and policy in one; its grammar forgives nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import graph_agent
from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.policy.constitution import Constitution, ToolGrant, shipped_constitution


def text(*lines: str, after: str = "") -> str:
    return "\n".join(["# Constitution", "", "## Available Tools", *lines, after])


def test_the_shipped_grants_are_exactly_these() -> None:
    assert Constitution.load().grants == (
        ToolGrant("add_task", "Create new tasks", False),
        ToolGrant("list_tasks", "View user's tasks", False),
        ToolGrant("update_task", "Modify task descriptions", False),
        ToolGrant("complete_task", "Mark tasks as done", False),
        ToolGrant("delete_task", "Remove tasks", True),
    )
    assert {"add_task", "list_tasks", "update_task", "complete_task", "delete_task"} == graph_agent.ALLOWED_TOOLS


@pytest.mark.parametrize(
    "line",
    [
        "You are a helpful task management assistant.",
        "- add_task: Create new tasks",
        "- delete_task: Remove tasks (requires confirmation)",
        "1. Only use tools when the user clearly wants a task operation",
        "2. For greetings/general questions, respond conversationally WITHOUT tools",
        "3. If the user's intent is unclear, ask a clarifying question",
        "4. For delete requests, always confirm before proceeding",
        "5. Stay focused on task management - politely decline off-topic requests",
        "- Be concise and helpful",
        "- Confirm successful operations",
        "- Explain errors in user-friendly terms",
        "- Never expose internal details or tool names to users",
    ],
)
def test_the_shipped_text_carries_what_the_engine_contract_asks_for(line: str) -> None:
    assert line in shipped_constitution().read_text()


def test_the_whole_text_is_kept_and_has_a_digest() -> None:
    constitution = Constitution.parse(text("- read_note: Read a note", after="## More\n- anything goes: here (even this)"))
    assert constitution.text.endswith("(even this)")
    assert constitution.whitelist == ("read_note",)
    assert len(constitution.digest) == 64
    assert constitution.digest != Constitution.parse(text("- read_note: Read one note")).digest


def test_carriage_returns_and_blank_lines_are_no_slip() -> None:
    assert Constitution.parse(text("", "- a: b", "", "- c: d (requires confirmation)").replace("\n", "\r\n")).grants == (
        ToolGrant("a", "b", False),
        ToolGrant("c", "d", True),
    )


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["- drop: Remove (require confirmation)"], 4),
        (["- drop: Remove (Requires Confirmation)"], 4),
        (["- drop: Remove (requires confirmation)."], 4),
        (["- drop: Remove [requires confirmation]"], 4),
        (["- drop: Remove requires confirmation"], 4),
        (["- drop: (requires confirmation) Remove"], 4),
        (["- drop: (requires confirmation)"], 4),
        (["- drop: Remove (needs approval)"], 4),
        (["- drop: Remove (requirеs confirmation)"], 4),
        (["- drop: Remove （requires confirmation）"], 4),
        (["- drop (requires confirmation): Remove"], 4),
        (["- drop: Remove\u202e (requires confirmation)"], 4),
        (["- drоp: Remove"], 4),
        (["- a: b", "- a: c"], 5),
        (["- a: b", "<!-- - c: d -->"], 5),
        (["- a: b", "```", "- c: d", "```"], 5),
        (["- a: b", "  - c: d"], 5),
        (["\t- a: b"], 4),
        (["* a: b"], 4),
        (["- a : b"], 4),
        (["- a:b"], 4),
        (["- a:"], 4),
        (["- a b: c"], 4),
        (["Some prose"], 4),
        (["- a: b", "### Sub"], 5),
        (["- ask_user: Ask"], 4),
        (["- decline: Decline"], 4),
        ([], 3),
    ],
)
def test_a_slip_is_an_error_with_its_line(lines: list[str], line: int) -> None:
    with pytest.raises(ConstitutionError) as slip:
        Constitution.parse(text(*lines))
    assert slip.value.line == line
    assert f"line {line}" in str(slip.value)


@pytest.mark.parametrize(
    "broken",
    [
        "# Constitution\n",
        "## available tools\n- a: b",
        "### Available Tools\n- a: b",
        "##  Available Tools\n- a: b",
        "## Available Tools\n- a: b\n## Available Tools\n- c: d",
        "```\n## Available Tools\n- a: b\n```",
        "<!--\n## Available Tools\n- a: b\n-->",
        "**Available Tools**\n- a: b",
    ],
)
def test_the_section_must_stand_once_and_exactly(broken: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(broken)


def test_a_file_that_cannot_be_read_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Constitution.load(tmp_path / "none.md")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        Constitution.load(tmp_path / "binary.md")
