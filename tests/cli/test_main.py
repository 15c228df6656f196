"""The console script: the modules that it loads, and its exit codes."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from importlib.metadata import requires
from pathlib import Path

import pytest

from benchmarks import startup
from graph_agent.cli.main import COMMANDS, Command, load_command
from graph_agent.cli.running import PROGRAM, report_failures
from graph_agent.db import sqlite_engine
from tests.cli.conftest import Cli

SCRIPT = str(Path(sys.executable).with_name("graph-agent"))
READING = [line for line, needs in startup.STARTS.items() if not needs >= startup.TURNS]
"""The command lines that run no turn."""


def test_every_command_has_a_row_that_says_what_it_needs() -> None:
    groups = {PROGRAM: [], "witness": ["log", "witness"]}
    listed = [[*groups.get(group, [group]), name] for group, table in COMMANDS.items() for name in table]
    measured = [line.split() for line in startup.STARTS]
    assert [words for words in listed if not any(line[: len(words)] == words for line in measured)] == []


@pytest.mark.parametrize("line", READING)
def test_a_command_loads_only_the_libraries_of_its_row(cli: Cli, line: str) -> None:
    # What is printed, replayed or verified must be there.
    assert cli("ask", "hi").code == 0
    assert startup.loaded_by(startup.command(line)) & startup.WATCHED <= startup.STARTS[line]


@pytest.mark.parametrize(
    ("environment", "arguments", "needed_by"),
    [
        ({"GRAPH_AGENT_OTEL": "1"}, ["ask", "hi"], "GRAPH_AGENT_OTEL"),
        ({"GRAPH_AGENT_OTEL": "1"}, ["serve", "--port", "0"], "GRAPH_AGENT_OTEL"),
        ({}, ["serve", "--port", "0", "--metrics-port", "0"], "--metrics-port"),
    ],
)
def test_without_the_extra_for_telemetry_one_sentence_names_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], arguments: list[str], needed_by: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # The extra is installed here.
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.", "graph_agent.integrations."))]:
        monkeypatch.delitem(sys.modules, name)
    for library in ("opentelemetry.sdk", "opentelemetry.exporter"):
        monkeypatch.setitem(sys.modules, library, None)
    ended = cli(*arguments)
    assert ended.code == 1
    assert ended.err.endswith(f"graph-agent: {needed_by} needs the extra 'otel': pip install 'graph-agent[otel]'\n")
    # What imports no exporter needs only the API, without the extra too.
    assert any(needed.startswith("opentelemetry-api") for needed in requires("mcp") or ())


def test_a_turn_loads_no_server_provider_and_migrations_and_no_package_that_is_not_named_with_its_reason(cli: Cli) -> None:
    assert cli("ask", "hi").code == 0
    loaded = startup.loaded_by(startup.command("ask hi --model embedded"))
    assert loaded & startup.WATCHED <= startup.TURNS
    assert startup.unexpected_packages(loaded) == []


@pytest.mark.parametrize(
    ("group", "name", "command"), [(group, name, one) for group, table in COMMANDS.items() for name, one in table.items()]
)
def test_a_commands_help_is_the_first_sentence_of_its_functions_docstring(group: str, name: str, command: Command) -> None:
    loaded = load_command(name, command)
    assert (loaded.help or "").split("\n\n")[0].replace("\n", " ") == command.help, f"{group} {name}"


def test_no_colour_without_a_terminal(cli: Cli) -> None:
    assert "\x1b" not in cli("--help").out + cli("log", "list").out


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"graph-agent \d+\.\d+\S*\n", cli("--version").out)


@pytest.mark.parametrize("arguments", [("frobnicate",), ("ask", "hi", "--loud"), ("log", "list", "--limit", "0")])
def test_a_command_that_does_not_exist_is_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    ended = cli(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err


@pytest.mark.parametrize(
    ("variable", "value"), [("GRAPH_AGENT_TURNS_PER_MINUTE", "many"), ("GRAPH_AGENT_RETENTION_DAYS", "1000000")]
)
def test_invalid_settings_are_reported_in_one_sentence_that_names_the_variable(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)

    ended = cli("ask", "hi")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"graph-agent: {variable}: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("variable", ["GRAPH_AGENT_SECRET", "GRAPH_AGENT_PREVIOUS_SECRETS", "LOG_SIGNING_KEY"])
def test_a_secret_may_have_bytes_that_are_not_utf_8(cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, os.fsdecode(b"\xff\xfe" * 20))

    assert cli("ask", "hi").code == 0
    assert cli("log", "verify").code == 0


@pytest.mark.parametrize("arguments", [("ask", "hi", "--user"), ("log", "show"), ("replay",)])
def test_an_id_that_is_not_utf_8_is_reported_in_one_sentence(cli: Cli, arguments: tuple[str, ...]) -> None:
    ended = cli(*arguments, os.fsdecode(b"caf\xe9"))

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.endswith("graph-agent: an argument of the command is not UTF-8 text\n")


def test_a_database_url_of_a_folder_is_reported_in_one_sentence_and_leaves_the_folder_as_it_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}")

    assert cli("ask", "hi").err == "graph-agent: the database is not available: unable to open database file (DATABASE_URL)\n"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_database_url_that_cannot_be_used_never_shows_its_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://me:hunter2@host/tasks")

    ended = cli("ask", "hi")

    assert ended.code == 1
    assert "hunter2" not in ended.err
    assert ended.err.count("\n") == 1


def test_a_failure_of_the_database_names_its_reason(cli: Cli, home: Path) -> None:
    (home / "graph_agent.db").write_bytes(b"SQLite format 3\0" + b"no database at all" * 100)

    for ended in (cli("log", "list"), cli("--traceback", "log", "list")):
        assert (ended.code, ended.out) == (1, "")
        url = f"sqlite:///{home / 'graph_agent.db'}"
        assert ended.err == f"graph-agent: the database is not available: file is not a database ({url})\n"


def test_a_failure_of_the_open_database_names_its_reason(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("log", "list")
    # A locked database is waited for, for seconds.
    monkeypatch.setattr(sqlite_engine, "PRAGMAS", ("PRAGMA busy_timeout=10",))
    with closing(sqlite3.connect(home / "graph_agent.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE").close()
        ended = cli("ask", "hi")

    assert (ended.code, ended.err.splitlines()[-1]) == (1, "graph-agent: the database is not available: database is locked")


def test_an_unexpected_failure_is_one_sentence_and_its_origin_is_shown_on_demand() -> None:
    with Path("/dev/full").open("wb") as full:
        quiet, aloud = (
            subprocess.run([SCRIPT, *options, "diagram"], stdout=full, stderr=subprocess.PIPE, check=False, text=True)
            for options in ([], ["--traceback"])
        )

    assert (quiet.returncode, aloud.returncode) == (1, 1)
    hint = "graph-agent --traceback COMMAND shows where"
    assert quiet.stderr == f"graph-agent: unexpected failure (OSError: No space left on device); {hint}\n"
    assert "Traceback" in aloud.stderr


def test_an_unexpected_failure_without_a_reason_of_the_system_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), report_failures():
        raise TimeoutError
    assert capsys.readouterr().err.startswith("graph-agent: unexpected failure (TimeoutError); ")


def test_a_path_in_a_folder_that_the_user_may_not_enter_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), report_failures():
        raise PermissionError(errno.EACCES, "Permission denied", "/root/home/log.db")
    assert capsys.readouterr().err == "graph-agent: /root/home/log.db cannot be used: Permission denied\n"


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([SCRIPT, "diagram"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("closed", "arguments", "code", "error"),
    [
        (0, ["ask", "-"], 2, "graph-agent: The message is empty."),
        (0, ["chat"], 0, "/help lists the commands, /quit leaves."),
        (1, ["chat"], 0, "/help lists the commands, /quit leaves."),
    ],
)
def test_a_stream_that_the_caller_has_closed_is_empty(closed: int, arguments: list[str], code: int, error: str) -> None:
    ended = subprocess.run(
        [SCRIPT, *arguments], preexec_fn=lambda: os.close(closed), stderr=subprocess.PIPE, check=False, text=True
    )

    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (code, error)
