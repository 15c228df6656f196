"""Edits of the line of one tool: what the parser reads afterwards is what was asked for, and nothing else has changed."""

from __future__ import annotations

import pytest

from graph_agent.errors import ConstitutionError
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.constitution_edits import ToolLine, with_limit, with_tool, without_tool

TEXT = """You help.

## Available Tools
- list: "List (all)" (reads)
<!-- a note -->
- move: Move (requires confirmation) (at most 2 per message) (undone by move(id = arguments.id, to = shown.to) for 2 hours)
- "1st: tool": Do (without confirmation)

## Facts
- shown: show(id = arguments.id)

# After
- move: no tool
"""
MOVE = ToolLine("move", '- move: "Move"', needs_marker=True)
OTHER = ToolLine("other", '- other: "Other"', needs_marker=True)


def grants(text: str) -> dict[str, tuple[bool, bool, int | None]]:
    found = Constitution.parse(text).grants
    return {one.name: (one.requires_confirmation, one.undone_by is not None, one.max_per_message) for one in found}


def test_the_verdict_of_a_line_with_an_undo_is_changed_and_comes_back() -> None:
    runs = with_tool(TEXT, MOVE, TEXT, asks=False)
    assert grants(runs)["move"] == (False, True, 2)
    assert "(without confirmation) (at most 2 per message) (undone by move(" in runs
    assert with_tool(runs, MOVE, TEXT, asks=True) == TEXT
    assert with_tool(TEXT, MOVE, TEXT, asks=True) == TEXT


def test_a_removed_line_comes_back_where_it_was() -> None:
    without = without_tool(TEXT, "move")
    assert list(grants(without)) == ["list", "1st: tool"]
    assert with_tool(without, MOVE, TEXT, asks=True) == TEXT
    none = without_tool(without_tool(without, "list"), "1st: tool")
    assert list(grants(with_tool(none, MOVE, TEXT, asks=True))) == ["move"]


def test_a_tool_that_was_never_listed_comes_last() -> None:
    assert list(grants(with_tool(TEXT, OTHER, TEXT, asks=True))) == ["list", "move", "1st: tool", "other"]
    assert grants(with_tool(TEXT, OTHER, TEXT, asks=False))["other"] == (False, False, None)


def test_a_limit_is_changed_added_and_removed() -> None:
    assert grants(with_limit(TEXT, "move", 7))["move"] == (True, True, 7)
    assert grants(with_limit(TEXT, "list", 3))["list"] == (False, False, 3)
    assert with_limit(with_limit(TEXT, "list", 3), "list", None) == TEXT


def test_line_endings_stay() -> None:
    text = TEXT.replace("\n", "\r\n")
    assert with_tool(with_tool(text, MOVE, text, asks=False), MOVE, text, asks=True) == text
    assert with_limit(text, "list", 3).replace("\r\n", "\n") == with_limit(TEXT, "list", 3)


def test_a_text_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ConstitutionError):
        with_limit(TEXT.replace("(reads)", "(raeds)"), "move", 3)
