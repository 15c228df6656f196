"""Fixtures that run the command line in this process."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graph_agent.bootstrap.secret import launch_token
from graph_agent.cli.main import main
from graph_agent.cli.running import configure_logging
from graph_agent.db import Database
from graph_agent.settings import read_settings
from tests.variables import noon_here, unset_variables


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def line(self, start: str) -> str:
        """Return the line of the output that begins like this, such as that of one check of the doctor."""
        return next(line for line in self.out.splitlines() if line.startswith(start))


Cli = Callable[..., Ended]


def heads_of(home: Path) -> list[Path]:
    """Return the files of the last signed checkpoint: that of the address of the database, and that of all its copies."""
    return [home / "log.head", *home.glob("log-*.head")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: Path) -> Path:
    """A GRAPH_AGENT_HOME with empty databases; no other variable of the program is set, nor one that changes its lines."""
    unset_variables(monkeypatch)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    shutil.copytree(template, folder)
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(folder))
    return folder


@pytest.fixture
def launched(home: Path) -> tuple[str, str]:
    """The option with the launch token, which stands for what a person types in a terminal."""
    launch_token(read_settings())
    return "--token-file", str(home / "authorization")


@pytest.fixture
def token(home: Path) -> tuple[str, str]:
    """The option with which a command answers a question without a terminal."""
    return "--token-file", str(home / "authorization")


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time zone of the commands is one in which it is about noon."""
    monkeypatch.setenv("GRAPH_AGENT_TIME_ZONE", noon_here())


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """`cli("ask", "hi", stdin=b"...")` runs a command as the console script would."""

    def run(*arguments: str, stdin: bytes = b"") -> Ended:
        # The command runs in this process.
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    yield run
    # The next test may run a part of a command without `main`.
    configure_logging()


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """`script(step, ...)` writes the script of a model and returns the value of `--model` for it."""

    def write(*steps: dict[str, Any]) -> str:
        file = tmp_path / "script.jsonl"
        file.write_text("\n".join(json.dumps(step) for step in steps), encoding="utf-8")
        return f"scripted:{file}"

    return write


@pytest.fixture
def log(home: Path) -> Iterator[Database]:
    """The database of the home."""
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    yield database
    database.close_now()
