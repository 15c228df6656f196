"""The constitution: shipped grants and strict grammar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graph_agent
from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.policy.constitution import Constitution, InPlans, ToolGrant, shipped_constitution


def text(*lines: str, after: str = "") -> str:
    return "\n".join(["# Constitution", "", "## Available Tools", *lines, after])


def test_the_shipped_grants_are_exactly_these() -> None:
    assert Constitution.load().grants == (
        ToolGrant("add_task", "Add task[ {description}]"),
        ToolGrant("list_tasks", "View user's tasks", reads=True),
        ToolGrant(
            "update_task", "Rename task[ {preview or task_id}][ to {description}]", without_confirmation=True, max_per_message=3
        ),
        ToolGrant("complete_task", "Complete task[ {preview or task_id}]", max_per_message=5),
        ToolGrant("delete_task", "Delete task[ {preview or task_id}]", requires_confirmation=True),
    )
    assert {"add_task", "list_tasks", "update_task", "complete_task", "delete_task"} == graph_agent.ALLOWED_TOOLS


READS = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)

def times_read():
    return len([name for name in opened if name.endswith("constitution.md")])

from graph_agent.policy import allowed_tools
assert times_read() == 0
assert "add_task" in allowed_tools.ALLOWED_TOOLS
assert times_read() == 1
assert allowed_tools.ALLOWED_TOOLS and times_read() == 1
"""


def test_the_whitelist_is_read_when_it_is_used_not_when_its_module_is_imported() -> None:
    ended = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "You are a helpful task management assistant.",
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
def test_the_shipped_text_contains_the_lines_of_the_engine_contract(line: str) -> None:
    assert line in shipped_constitution().read_text()


def test_the_whole_text_is_kept_and_has_a_digest() -> None:
    constitution = Constitution.parse(text("- read_note: Read a note", after="## More\n- anything goes: here (even this)"))
    assert constitution.text.endswith("(even this)")
    assert constitution.whitelist == ("read_note",)
    assert len(constitution.digest) == 64
    assert constitution.digest != Constitution.parse(text("- read_note: Read one note")).digest


def test_carriage_returns_and_blank_lines_are_accepted() -> None:
    assert Constitution.parse(text("", "- a: b", "", "- c: d (requires confirmation)").replace("\n", "\r\n")).grants == (
        ToolGrant("a", "b"),
        ToolGrant("c", "d", requires_confirmation=True),
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
        (['- drop: "Remove\u3164"'], 4),
        (['- drop: "Remove\u200c"'], 4),
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
def test_an_invalid_line_is_an_error_with_its_number(lines: list[str], line: int) -> None:
    with pytest.raises(ConstitutionError) as problem:
        Constitution.parse(text(*lines))
    assert problem.value.line == line
    assert f"line {line}" in str(problem.value)


@pytest.mark.parametrize(
    ("markers", "grant"),
    [
        ("", ToolGrant("act", "Act")),
        (" (reads)", ToolGrant("act", "Act", reads=True)),
        (" (without confirmation)", ToolGrant("act", "Act", without_confirmation=True)),
        (" (reads) (trusted results)", ToolGrant("act", "Act", reads=True, trusted_results=True)),
        (" (in plans)", ToolGrant("act", "Act", in_plans=InPlans.ANY)),
        (" (reads) (in plans, only with a form)", ToolGrant("act", "Act", reads=True, in_plans=InPlans.WITH_FORM)),
        (" (at most 1 per message)", ToolGrant("act", "Act", max_per_message=1)),
        (" (at most 999 per message)", ToolGrant("act", "Act", max_per_message=999)),
        (
            " (requires confirmation) (reads) (at most 12 per message)",
            ToolGrant("act", "Act", requires_confirmation=True, reads=True, max_per_message=12),
        ),
        (
            " (at most 3 per message) (without confirmation)",
            ToolGrant("act", "Act", without_confirmation=True, max_per_message=3),
        ),
    ],
)
def test_a_line_can_have_several_markers(markers: str, grant: ToolGrant) -> None:
    assert Constitution.parse(text(f"- act: Act{markers}")).grants == (grant,)


@pytest.mark.parametrize(
    "markers",
    [
        "(reads) (reads)",
        "(at most 3 per message) (at most 4 per message)",
        "(requires confirmation) (without confirmation)",
        "(requires confirmation)(reads)",
        "(reads) and more",
        "(trusted results) (trusted results)",
        "(in plans) (in plans, only with a form)",
        "(in plan)",
        "(in plans, only with a code)",
        "(trusted result)",
        "(read)",
        "(Reads)",
        "(at most 0 per message)",
        "(at most 03 per message)",
        "(at most 1000 per message)",
        "(at most three per message)",
        "(at most 3 per turn)",
        "(at most 3)",
        "at most 3 per message",
        "(with confirmation)",
    ],
)
def test_a_marker_that_is_repeated_contradictory_or_misspelt_is_an_error(markers: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(text(f"- act: Act {markers}"))


@pytest.mark.parametrize(
    "summary",
    [
        "Remove tasks, requires confimation, confirmation",
        "Remove tasks with confirmation",
        "Remove tasks, Confirm first",
        "at most 3 per message",
        "Remove tasks of the signed-in user",
    ],
)
def test_a_marker_without_brackets_is_an_error_but_for_a_summary_in_quotes(summary: str) -> None:
    with pytest.raises(ConstitutionError, match="looks like a misspelt or misplaced marker"):
        Constitution.parse(text(f"- drop: {summary}"))
    (grant,) = Constitution.parse(text(f'- drop: "{summary}"')).grants
    assert grant == ToolGrant("drop", summary)


def test_a_comment_on_a_line_of_its_own_is_no_grant() -> None:
    (grant,) = Constitution.parse(text("<!-- the server 'a' says: \"Act\"; readOnlyHint: true -->", "- act: Act")).grants
    assert grant == ToolGrant("act", "Act")
    for line in ("<!-- - act: Act -->", "<!--  - act: Act -->", "<!-- a --> - act: Act -->", "<!-- a", "<!-- a\u202e -->"):
        with pytest.raises(ConstitutionError):
            Constitution.parse(text(line, "- other: Act"))


@pytest.mark.parametrize(
    "line",
    [
        "- drop: ~~Remove tasks~~",
        "- drop: <del>Remove tasks</del>",
        "- ~~drop: Remove tasks~~",
        "- drop: Remove tasks <!-- ask -->",
        "- drop: Remove tasks // not this one",
        "- drop: Remove tasks # later",
        "- drop: Remove tasks /* later */",
        "- drop: Remove &lt;b&gt; tasks",
        "- drop: **Remove** tasks",
        "- drop: `Remove` tasks",
        "- drop: Remove | tasks",
    ],
)
def test_comments_strike_through_and_html_in_a_line_are_an_error(line: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(text(line))


ORDINARY = """
Create new tasks | Query the map provider | Ask a question about a repository | Append blocks to a page | Reads tasks
Get a pull request review | Convert units of information | Show configuration and settings | List file permissions
Search the web for current information | Find the maximum value | List tasks that are not done | Check user balance
Run SQL queries, read-only | Move files; rename directories | Translate text into 30 languages | Show status & health
"""


@pytest.mark.parametrize(
    "summary", [part.strip() for line in ORDINARY.splitlines() for part in line.split("|") if part.strip()]
)
def test_ordinary_summaries_need_no_quotes(summary: str) -> None:
    assert Constitution.parse(text(f"- act: {summary}")).grants == (ToolGrant("act", summary),)


def test_a_quoted_summary_is_free_text_and_markers_follow_it() -> None:
    (grant,) = Constitution.parse(text('- drop: "Never asks (requires confirmation) 中文" (at most 2 per message)')).grants
    assert grant == ToolGrant("drop", "Never asks (requires confirmation) 中文", max_per_message=2)
    for broken in ('- drop: "Remove', '- drop: "Remove" tasks', '- drop: ""', '- drop: "a" "b"', '- drop: "a‮b"'):
        with pytest.raises(ConstitutionError):
            Constitution.parse(text(broken))


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
def test_the_section_heading_must_appear_exactly_once(broken: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(broken)


def test_prompts_are_named_with_their_servers_and_have_no_markers() -> None:
    tools = "## Available Tools\n- list_tasks: View\n"
    assert Constitution.parse(tools).prompts == {}
    named = Constitution.parse(
        f"{tools}## Available Prompts\n<!-- a note -->\n- files.review: Review a file\n\n- notes.sum.up: Sum up\n"
    )
    assert (tuple(named.prompts), named.whitelist) == (("files.review", "notes.sum.up"), ("list_tasks",))
    for line, why in [
        ("- review: Review", "server.review"),
        ("- files.review: Review (reads)", "no markers"),
        ("- files.review: Review\n- files.review: Again", "listed twice"),
        ("- files.review", "expected"),
        ("- files.review: Review\n## Available prompts", "exactly"),
    ]:
        with pytest.raises(ConstitutionError, match=why):
            Constitution.parse(f"{tools}## Available Prompts\n{line}\n")


def test_a_text_that_is_too_long_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "long.md"
    file.write_text("x" * 300_000, encoding="utf-8")
    with pytest.raises(ConstitutionError, match=r"^constitution: it has more than 262,144 characters$"):
        Constitution.load(file)


def test_an_unreadable_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Constitution.load(tmp_path / "none.md")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        Constitution.load(tmp_path / "binary.md")


def test_a_quoted_summary_keeps_its_joiners() -> None:
    (grant,) = Constitution.parse(text('- add: "کار را می\u200cخواهم 👨\u200d👩\u200d👧"')).grants
    assert grant.summary == "کار را می\u200cخواهم 👨\u200d👩\u200d👧"
