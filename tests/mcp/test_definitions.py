"""Pinned definitions, and the constitution that is written for a file of servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool, ToolAnnotations

from graph_agent.bootstrap.definitions import pin_tools
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.errors import ConfigurationError, ToolDefinitionError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution, grant_line
from graph_agent.tools.pins import Pins, lock_file
from tests.cli.conftest import Cli
from tests.mcp.conftest import Servers, notes_server
from tests.mcp.test_third_party import granted, settings
from tests.permission import permitted


def tool(**changes: Any) -> Tool:
    return Tool(**{"name": "act", "description": "Acts.", "input_schema": {"type": "object"}, **changes})


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ({}, None),
        ({"description": "Acts otherwise."}, "its description changed"),
        ({"input_schema": {"type": "object", "properties": {"to": {}}}}, "its schema changed"),
        ({"output_schema": {"type": "object"}}, "its schema changed"),
        ({"title": "Act", "description": None}, "its description and annotations changed"),
        ({"annotations": ToolAnnotations(read_only_hint=True)}, "its annotations changed"),
        ({"name": "other"}, "it is not pinned"),
    ],
)
def test_a_difference_names_what_changed(tmp_path: Path, now: dict[str, Any], difference: str | None) -> None:
    Pins.of({"a": [tool()]}).save(tmp_path / "pins.lock")
    pins = Pins.load(tmp_path / "pins.lock")
    assert pins is not None
    assert pins.difference("a", tool(**now)) == difference


def test_a_constitution_is_not_taken_for_its_own_lock_file() -> None:
    with pytest.raises(ConfigurationError, match="has the name of a lock file"):
        lock_file(Path("constitution.lock"))


def test_a_lock_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    file = lock_file(tmp_path / "constitution.md")
    assert file.name == "constitution.lock"
    assert Pins.load(file) is None
    for text in ("{", "[]", '{"version": 1, "servers": {}}', '{"version": 2, "servers": {"a": 7}}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match="lock file"):
            Pins.load(file)


def test_a_lock_file_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pins.lock"
    Pins.of({"a": [tool()]}).save(file)
    file.write_text(file.read_text(encoding="utf-8").replace('"servers"', '"servers": {}, "servers"'), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="the key 'servers' twice"):
        Pins.load(file)


def test_the_files_are_written_checked_pinned_and_compared(cli: Cli, servers: Servers, tmp_path: Path) -> None:
    mcp, file = ("--mcp", str(servers())), tmp_path / "drafted.md"
    drafted = cli("constitution", "new", *mcp).out
    file.write_text(drafted, encoding="utf-8")
    assert {(grant.reads, grant.requires_confirmation) for grant in Constitution.parse(drafted).grants} == {(False, True)}
    comment = "<!-- the server 'notes' says: Read a note.; its server says that it only reads -->"
    assert f'{comment}\n- read_note: "Read note: name {{name}}" (req' in drafted

    listed = (
        "<!-- the server 'notes' says that these only read; nothing checks it. Where you believe it, write (reads) instead of "
    )
    assert listed in drafted

    both = (*mcp, "--constitution", str(file))
    explained = cli("constitution", "check", *both).out.splitlines()
    assert explained[0].endswith("because there is no ledger, and needs the user's yes")
    file.write_text("## Available Tools\n- read_note: Read (reads)\n", encoding="utf-8")
    reads, left_out = cli("constitution", "check", *both).out.splitlines()
    assert reads.endswith("(reads) rests on a hint of the server alone: nothing checks it")
    assert left_out.startswith("not listed, so never called: write_note, ")

    missing = cli("tools", "diff", *both)
    assert (missing.code, "tools pin" in missing.err) == (1, True)
    assert cli("tools", "pin", *both).out == f"pinned 8 tools in {tmp_path / 'drafted.lock'}\n"
    assert cli("tools", "diff", *both).code == 0
    checked = cli("doctor", *both)
    # Only the embedded model does not fit these tools.
    assert ("broken" not in checked.out.replace("model         broken", ""), checked.code) == (True, 1)
    pinned = json.loads((tmp_path / "drafted.lock").read_text(encoding="utf-8"))
    pinned["servers"]["notes"]["read_note"]["inputSchema"] = {}
    (tmp_path / "drafted.lock").write_text(json.dumps(pinned), encoding="utf-8")
    differing = cli("tools", "diff", *both)
    assert (differing.code, differing.out) == (1, "notes.read_note: its schema changed\n")
    assert "notes.read_note (its schema changed)" in " ".join(cli("doctor", *both).out.split())


async def test_a_tool_that_changes_after_the_start_is_refused_and_the_others_continue(
    tmp_path: Path, servers: Servers, constitution: Path, notes: Path
) -> None:
    file = servers(notes=notes_server(notes))
    granted(
        constitution,
        "## Available Tools\n- write_note: Write (without confirmation)\n- redefine: Change (without confirmation)\n"
        "- pid: Id (reads)\n",
    )
    configured = settings(tmp_path, file, constitution, "embedded")
    async with open_runtime(configured) as runtime:
        await pin_tools(configured, runtime.database)
    async with open_runtime(configured) as runtime:
        before = await runtime.engine.prepare()
        assert set(before.policy.rules) == {"write_note", "redefine", "pid"}
        assert (await runtime.tools.execute(permitted("redefine", {}, "ann", "k"))).success
        # The announcement may arrive after the answer of the call.
        while "write_note" in (policy := (await runtime.engine.prepare()).policy).rules:
            assert (await runtime.tools.execute(permitted("pid", {}, "ann"))).success
        assert set(policy.unavailable) == {"write_note"}
        assert runtime.tools.executors["notes"].refused == {"write_note": "its description changed"}
        assert set(before.policy.rules) == {"write_note", "redefine", "pid"}


def test_names_that_the_grammar_does_not_know_are_quoted() -> None:
    lines = [grant_line("1st tool", "Does (one) thing", "(reads)"), grant_line("a.b", "Act")]
    assert lines == ['- "1st tool": "Does (one) thing" (reads)', '- a.b: "Act"']
    assert Constitution.parse("## Available Tools\n" + "\n".join(lines)).whitelist == ("1st tool", "a.b")


@pytest.mark.parametrize("line", ['- "": x', '- " ": x', '- "answer": x', '- "ä": x', '- "a\u202eb": x', '- "a"b": x'])
def test_a_quoted_name_is_not_empty_not_reserved_and_ascii(line: str) -> None:
    with pytest.raises(ConfigurationError):
        Constitution.parse(f"## Available Tools\n{line}\n")


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"description": "Acts.\u200b"}, "description of the tool 'act' contains hidden"),
        ({"description": "Acts.\u202e"}, "description of the tool 'act' contains hidden"),
        ({"title": "Act\U000e0041"}, "title of the tool 'act' contains hidden"),
        ({"title": "x" * 300}, "title of the tool 'act' is too long"),
        ({"parameters": {"properties": {"a": {"description": "\u2066"}}}}, "input schema of the tool 'act' contains hidden"),
    ],
)
def test_a_text_that_hides_something_is_refused(declared: dict[str, Any], problem: str) -> None:
    constitution = Constitution.parse("## Available Tools\n- act: Act\n")
    traits = {"act": ToolTraits(title=declared.pop("title", None))}
    declaration = ToolDeclaration(**{"name": "act", "description": "Acts.\r\nTwice. 👩‍👧", "parameters": {}, **declared})
    with pytest.raises(ToolDefinitionError, match=problem):
        compile_policy(constitution, [declaration], traits)
