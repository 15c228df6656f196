"""`graph-agent replay` and `log verify`."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from graph_agent.policy.constitution import Constitution
from tests.cli.conftest import Cli
from tests.cli.test_verify import UNANCHORED


@pytest.fixture
def decision(cli: Cli) -> str:
    """The id of a decision that added a task."""
    return str(cli("ask", "add a task to call mom", "--json").json()["decision_id"])


def change(home: Path, statement: str) -> None:
    with sqlite3.connect(home / "graph_agent.db") as connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


def test_a_decision_replays_from_the_log(cli: Cli, decision: str) -> None:
    ended = cli("replay", decision)
    assert (ended.code, ended.out) == (0, f"identical {decision}\n")
    report = cli("replay", decision, "--json").json()
    assert report["identical"] is True
    assert report["states"][-1] == "BUILD_DECISION"


def test_all_decisions_are_replayed_and_differing_ones_printed(cli: Cli, decision: str, home: Path) -> None:
    cli("ask", "hello")
    assert cli("replay", "--all").out == "2 of 2 identical\n"
    edit = "record = replace(record, 'response_text\":\"Hello!', 'response_text\":\"Goodbye!')"
    change(home, f"UPDATE decision_logs SET {edit} WHERE message = 'hello'")
    ended = cli("replay", "--all")
    assert ended.code == 1
    assert ended.out.endswith("1 of 2 identical\n")
    assert "differs" in ended.out
    assert decision not in ended.out
    assert cli("replay", "--all", "--outcome", "SUCCESS:TASK_COMPLETED").code == 0


def test_an_exported_file_alone_replays_in_another_process_of_another_home(cli: Cli, decision: str, tmp_path: Path) -> None:
    cli("ask", "delete the call mom task")
    file = tmp_path / "export.jsonl"
    cli("log", "export", "--out", str(file))
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(tmp_path / "nowhere"), "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-c", "from graph_agent.cli.main import main; main()", "replay", str(file)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "2 of 2 identical\n")
    assert not (tmp_path / "nowhere").exists()
    file.write_text(
        file.read_text(encoding="utf-8").replace("Add task[ {description}]", "Make task[ {description}]"), encoding="utf-8"
    )
    changed = cli("replay", str(file))
    assert changed.code == 1
    assert "the text of the constitution" in changed.out
    assert decision in changed.out


def test_steps_are_printed_one_by_one(cli: Cli, decision: str) -> None:
    out = cli("replay", decision, "--step").out
    assert out.index("BUILD_REQUEST    → request_built") < out.index("EXECUTE_TOOLS    → executed")
    assert "✓ Add task 'call mom'" in out
    assert out.endswith(f"identical {decision}\n")


def test_another_constitution_shows_what_it_would_have_decided(cli: Cli, decision: str, tmp_path: Path) -> None:
    stricter = tmp_path / "stricter.md"
    text = Constitution.load().text.replace(
        '- add_task: "Add task[ {description}]"', '- add_task: "Add task[ {description}]" (requires confirmation)'
    )
    stricter.write_text(text, encoding="utf-8")
    ended = cli("replay", decision, "--constitution", str(stricter))
    assert ended.code == 1
    assert "REQUEST_CONFIRMATION" in ended.out


def test_todays_model_is_asked_with_live(cli: Cli, decision: str) -> None:
    ended = cli("replay", decision, "--live", "--model", "embedded")
    assert ended.code == 0
    assert "model: embedded" in ended.err


def test_what_cannot_be_replayed_is_said_in_one_sentence(cli: Cli, tmp_path: Path) -> None:
    missing = cli("replay", "00000000-0000-0000-0000-000000000000")
    assert (missing.code, missing.err) == (
        1,
        "graph-agent: The decision 00000000-0000-0000-0000-000000000000 does not exist.\n",
    )
    assert cli("replay").code == 2
    assert cli("replay", "x", "--all").code == 2
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("[1, 2]", encoding="utf-8")
    assert cli("replay", str(nonsense)).code == 1


def test_verify_names_what_was_changed(cli: Cli, decision: str, home: Path) -> None:
    assert cli("log", "verify").out == f"intact: 1 record, tree size 1, 2 turns and operations compared; {UNANCHORED}\n"
    change(home, "UPDATE decision_logs SET user_id = 'eve'")
    ended = cli("log", "verify", "--json")
    assert ended.code == 1
    violations = ended.json()["violations"]
    assert {violation["decision_id"] for violation in violations} == {decision}
    assert "projection" in {violation["kind"] for violation in violations}


@pytest.mark.usefixtures("decision")
def test_a_log_with_pruned_decisions_verifies_and_their_export_is_replayed(cli: Cli, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "export.jsonl"
    cli("log", "export", "--out", str(file))
    change(home, "UPDATE record_blobs SET last_used_at = last_used_at WHERE digest = (SELECT min(digest) FROM record_blobs)")
    with sqlite3.connect(home / "graph_agent.db") as connection:
        connection.execute("UPDATE decision_logs SET created_at = '2020-01-01T00:00:00.000000+00:00'")
    connection.close()
    with sqlite3.connect(home / "graph_agent.db") as connection:
        for table in ("turns", "operations"):
            connection.execute(f"UPDATE {table} SET created_at = '2020-01-01T00:00:00.000000+00:00'")
    connection.close()
    assert cli("log", "prune").code == 0
    pruned = "1 removed on purpose, 1 of them without a statement yet, "
    assert f"intact: 0 records, tree size 1, {pruned}" in cli("log", "verify").out
    assert cli("replay", str(file)).out == "1 of 1 identical\n"


def test_a_file_with_control_characters_in_an_id_is_refused_and_not_printed(cli: Cli, decision: str, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert cli("log", "export", "--out", str(file)).code == 0
    forged = file.read_text(encoding="utf-8").replace(f'"decision_id":"{decision}"', '"decision_id":"\\u001b[2J\\u202eid"')
    file.write_text(forged, encoding="utf-8")
    ended = cli("replay", str(file))
    assert ended.code == 1
    assert "its decision id is not a UUID" in ended.err
    assert "\x1b[2J" not in ended.out + ended.err


@pytest.mark.usefixtures("decision", "quick_processes")
# The checkpoint is written by one run and read by the next one. Each run with workers starts two processes.
@pytest.mark.parametrize(
    ("options", "form", "runs"),
    [(["--workers", "2"], [], 1), (["--checkpoint", "checkpoint"], [], 2), (["--checkpoint", "checkpoint"], ["--json"], 2)],
)
def test_a_replay_in_slices_prints_what_one_process_prints(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], form: list[str], runs: int
) -> None:
    monkeypatch.chdir(home)
    # Slices of the real size have hundreds of decisions.
    monkeypatch.setattr("graph_agent.audit.time_slices.SIZE", 1)
    cli("ask", "hello")
    edit = "record = replace(record, 'response_text\":\"Hello!', 'response_text\":\"Goodbye!')"
    change(home, f"UPDATE decision_logs SET {edit} WHERE message = 'hello'")
    alone = cli("replay", "--all", *form)
    assert alone.code == 1
    for _ in range(runs):
        shared = cli("replay", "--all", *options, *form)
        assert (shared.code, shared.out, shared.err) == (alone.code, alone.out, alone.err)


@pytest.mark.usefixtures("decision")
@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--all", "--workers", "2", "--step"], 2, "are for --all, without --step"),
        (["some-id", "--workers", "2"], 2, "are for --all, without --step"),
        (["--all", "--dask", "tcp://127.0.0.1:1"], 1, "there is no Dask scheduler at tcp://127.0.0.1:1"),
        (["--all", "--dask", "nonsense://x"], 1, "there is no Dask scheduler at nonsense://x"),
        (["--all", "--workers", "2", "--checkpoint", "/dev/null/x"], 1, "the checkpoint directory /dev/null/x cannot be used"),
    ],
)
def test_wrong_options_of_a_replay_in_slices_get_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, sentence: str
) -> None:
    # The command waits ten seconds for a scheduler.
    monkeypatch.setattr("graph_agent.cli.executors.DASK_SECONDS", 0.1)
    ended = cli("replay", *options)
    assert (ended.code, ended.out) == (code, "")
    assert sentence in ended.err
