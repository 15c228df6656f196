"""The examples run, offline."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests import fork_server

EXAMPLES = Path(__file__).parents[1] / "examples"


def _output_of(example: str) -> str:
    """Run one example and return what it prints."""
    return subprocess.run([fork_server.python(), EXAMPLES / example], text=True, capture_output=True, check=True).stdout


def test_the_library_desk_serves_another_domain() -> None:
    assert _output_of("library/run.py") == (
        "you> I'd like Moby-Dick\n"
        "Moby-Dick is yours for two weeks.\n"
        "  ✓ Lend book (mark 'M 9')\n"
        "you> burn Middlemarch\n"
        "I can't do that.\n"
        "you> here is Moby-Dick back\n"
        "Give back\n"
        "  Mark: 'M 9'\n"
        "Should I go ahead? Please answer yes or no.\n"
        "you> yes\n"
        "Done: Give back (mark 'M 9').\n"
        "  Lent: no\n"
        "  Title: 'Moby-Dick'\n"
        "  ✓ Give back (mark 'M 9'); added: lent no, title 'Moby-Dick'\n"
    )


def test_the_notebook_changes_nothing_twice() -> None:
    assert _output_of("notes/run.py") == (
        "called twice in one decision: 'buy milk'; the same note: True\n"
        "you> what about milk?\n"
        "You noted 'buy milk'.\n"
        "you> delete it\n"
        "Delete the note 'buy milk'. Should I go ahead? Please answer yes or no.\n"
        "you> yes\n"
        "Done: Delete the note 'buy milk'.\n"
        "  ✓ Delete the note 'buy milk'\n"
    )


def test_the_cases_of_the_notebook_pass(tmp_path: Path) -> None:
    folder = EXAMPLES / "notes"
    files = ("--constitution", folder / "constitution.md")
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(tmp_path)}
    ran = subprocess.run(
        [fork_server.graph_agent(), "validate", folder / "cases.yaml", *files],
        cwd=EXAMPLES.parent,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 of 5 cases passed" in ran.stdout


def test_the_session_of_the_returns_desk_is_the_documented_one() -> None:
    documented = (EXAMPLES / "returns_desk/README.md").read_text(encoding="utf-8")
    [session] = re.findall(r"```console\n\$ python examples/returns_desk/run.py\n(.*?)```", documented, re.DOTALL)
    assert _output_of("returns_desk/run.py") == session


def test_functions_are_tools_in_twenty_lines() -> None:
    assert _output_of("functions.py").splitlines()[:5] == [
        "Book a table",
        "  People: 2",
        "  Table: 7",
        "Should I go ahead? Please answer yes or no.",
        "Done: Book a table (people 2, table 7).",
    ]
    program = (EXAMPLES / "functions.py").read_text(encoding="utf-8").partition("import asyncio")[2]
    before_the_script = program.partition("script = [")[0] + program.partition("agent = ")[2].partition("\n")[0]
    assert len([line for line in before_the_script.splitlines() if line.strip()]) <= 20
