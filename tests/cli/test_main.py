"""The console script itself: what it loads, and how everything ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SCRIPT = str(Path(sys.executable).with_name("graph-agent"))
HEAVY = (
    "langgraph", "langchain_core", "mcp", "alembic", "fastapi", "starlette", "sqlalchemy", "openai", "google",
    "langchain_google_genai", "uvicorn", "httpx",
)  # fmt: skip


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from graph_agent.cli.main import main\n"
        "try:\n    main(['ask', '--help'])\n"
        f"except SystemExit:\n    print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout

    assert out.splitlines()[-1] == "loaded: []"


def test_no_colour_on_what_is_no_terminal(cli: Cli) -> None:
    assert "\x1b" not in cli("--help").out + cli("log", "list").out


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"graph-agent \d+\.\d+\S*\n", cli("--version").out)


@pytest.mark.parametrize("arguments", [("frobnicate",), ("ask", "hi", "--loud"), ("log", "list", "--limit", "0")])
def test_a_command_that_does_not_exist_is_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    ended = cli(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err


def test_wrong_settings_are_told_in_one_sentence_that_names_the_variable(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_TURNS_PER_MINUTE", "many")

    ended = cli("ask", "hi")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("graph-agent: GRAPH_AGENT_TURNS_PER_MINUTE: ")
    assert ended.err.count("\n") == 1


def test_a_database_url_that_cannot_be_used_never_shows_its_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://me:hunter2@host/tasks")

    ended = cli("ask", "hi")

    assert ended.code == 1
    assert "hunter2" not in ended.err
    assert ended.err.count("\n") == 1


def test_an_unexpected_failure_is_one_sentence_and_its_origin_is_shown_on_demand(cli: Cli, home: Path) -> None:
    (home / "log.db").unlink()
    (home / "log.db").write_bytes(b"SQLite format 3\0" + b"no database at all" * 100)

    quiet, aloud = cli("log", "list"), cli("--traceback", "log", "list")

    assert (quiet.code, aloud.code) == (1, 1)
    assert quiet.err.count("\n") == 1
    assert quiet.err.startswith("graph-agent: ")


def test_a_reader_that_leaves_ends_the_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([SCRIPT, "diagram"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (1, b"")
