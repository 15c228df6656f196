"""`graph-agent log` as a transparency log: witnesses, restores, erasure, keys, and both directions of verification."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from graph_agent.tlog.note import SigningKey, VerifierKey
from graph_agent.tlog.witness import WitnessClient
from tests.cli.conftest import Cli, heads_of
from tests.cli.test_verify import TABLES, UNANCHORED, execute
from tests.fork_server import graph_agent
from tests.record.trees import running_witness
from tests.serving import address_of, free_ports


def key_of(home: Path) -> VerifierKey:
    return SigningKey.parse((home / "log.key").read_text(encoding="utf-8").splitlines()[0]).verifier


@contextmanager
def witness_in_thread(folder: Path, *logs: VerifierKey) -> Iterator[WitnessClient]:
    """Serve a witness while commands run in this thread."""
    ready, stopped = threading.Event(), threading.Event()
    found: list[WitnessClient] = []

    async def serve() -> None:
        async with running_witness(folder, *logs) as witness:
            found.append(witness)
            ready.set()
            await asyncio.to_thread(stopped.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield found[0]
    finally:
        stopped.set()
        thread.join()


def copied(home: Path, file: Path) -> Path:
    with closing(sqlite3.connect(home / "graph_agent.db")) as source, closing(sqlite3.connect(file)) as target:
        source.backup(target)
    return file


def put_back(home: Path, file: Path) -> None:
    for old in home.glob("graph_agent.db*"):
        old.unlink()
    shutil.copy(file, home / "graph_agent.db")


def test_a_witness_and_a_log_are_set_up_in_an_order_that_works(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("GRAPH_AGENT_HOME", str(tmp_path))
        made = cli("witness", "--name", "auditor.example/w1")
        assert made.code == 0
        key = made.out.removeprefix("witness key: ").strip()
        # The key is kept.
        assert cli("witness").out == made.out
    added = cli("log", "witness", "add", "http://127.0.0.1:9", key)
    assert added.code == 0
    assert added.out.endswith(f"start it: graph-agent witness --log {key_of(home)}\n")


def test_one_command_makes_a_witness_that_knows_its_log(cli: Cli, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "the witness"
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    added = cli("log", "witness", "add", f"http://{address}", "--new", str(folder), "--name", "auditor.example/w1")
    start = f"GRAPH_AGENT_HOME='{folder}' graph-agent witness"
    assert added.out == f"auditor.example/w1 is a witness of this log; start it: {start}\n"
    assert (folder / "witness.logs").read_text() == f"{key_of(home)}\n"
    assert ((folder / "witness.key").stat().st_mode & 0o777) == 0o600
    command = [graph_agent(), "witness", "--listen", address]
    environment, log = {**os.environ, "GRAPH_AGENT_HOME": str(folder)}, tmp_path / "stderr"
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors, env=environment) as witness:
        try:
            assert address_of(witness, log) == f"http://{address}"
            decision = cli("ask", "show my tasks", "--json").json()["decision_id"]
            assert cli("log", "export", "--proof", decision, "--out", str(tmp_path / "proof")).code == 0
            assert "by auditor.example/w1 (tree size 1)" in cli("log", "verify").out
        finally:
            witness.terminate()
    for wrong in ([], ["w1+00000000+AAAA", "--new", str(folder)], ["w1+00000000+AAAA", "--name", "w2"]):
        refused = cli("log", "witness", "add", "http://127.0.0.1:9", *wrong)
        assert (refused.code, "--new FOLDER" in refused.err) == (2, True)


def test_a_witness_shows_that_yesterdays_copy_was_put_back_until_the_log_is_forked(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    cli("ask", "add a task to call mom")
    with witness_in_thread(tmp_path, key_of(home)) as witness:
        added = cli("log", "witness", "add", witness.url, str(witness.key))
        assert added.out == f"{witness.key.name} is a witness of this log; start it: graph-agent witness --log {key_of(home)}\n"
        yesterday, head = copied(home, tmp_path / "yesterday"), heads_of(home)[0].read_bytes()
        decision = cli("ask", "show my tasks", "--json").json()["decision_id"]
        assert cli("log", "export", "--proof", decision, "--out", str(tmp_path / "proof")).code == 0
        verified = cli("log", "verify")
        assert (verified.code, "by auditor.example/w1 (tree size 2)" in verified.out) == (0, True), verified.out

        # Also the files of the home, but for the key.
        put_back(home, yesterday)
        for file in heads_of(home):
            file.write_bytes(head)
        found = cli("log", "verify")
        assert (found.code, found.out.count("removed    ")) == (1, 1)
        assert "auditor.example/w1 has seen 2 leaves at 20" in found.out
        assert "the log has 1: the end was removed or the database was rolled back" in found.out
        assert (
            cli("log", "verify", "--offline").out
            == f"intact: 1 record, tree size 1, 2 turns and operations compared; {UNANCHORED}\n"
        )
        assert cli("ask", "hello").code == 0
        assert "1 row not in the tree yet" in cli("log", "verify").out

        forked = cli("log", "fork", "--reason", "restored a backup")
        assert forked.out.startswith(
            f"the log continues as {key_of(home).name}/fork-2; lost was {key_of(home).name} with 2 leaves"
        )
        after = cli("log", "verify")
        assert (after.code, "forked 1 time; UNANCHORED" in after.out) == (0, True)
        again = cli("log", "fork", "--reason", "again")
        assert (again.code, again.err.count("\n"), "nothing to fork" in again.err) == (1, 1, True)
    # The proof that was made before stays valid.
    command = [sys.executable, "-I", "verify_proof.py", "decision.json", "decision.tlog-proof", "trusted_keys.txt"]
    proved = subprocess.run(command, cwd=tmp_path / "proof", capture_output=True, text=True, check=False)
    assert (proved.returncode, decision in proved.stdout) == (0, True), proved


def test_a_user_is_erased_and_the_log_says_how_much_but_not_who(cli: Cli, home: Path, tmp_path: Path) -> None:
    for user in ("ann", "bob"):
        assert cli("ask", "--user", user, "add a task to call mom").code == 0
    kept = cli("log", "list", "--user", "bob", "--json").json()["decision_id"]
    assert cli("log", "export", "--proof", kept, "--out", str(tmp_path / "proof")).code == 0
    erased = cli("log", "erase", "--user", "ann", "--reason", "request 7", "--yes")
    assert erased.code == 0, erased.err
    assert "1 decision, 1 conversation and 1 operation erased" in erased.out
    receipt = erased.out.partition("receipt for the person: ")[2].strip()
    with closing(sqlite3.connect(home / "graph_agent.db")) as database:
        # The index of words has no content of its own; the rows of its shadow tables are read.
        wanted = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('tasks', 'search_index')"
        tables = database.execute(wanted)
        dump = "\n".join(str(row) for (name,) in tables.fetchall() for row in database.execute(f'SELECT * FROM "{name}"'))
        (facts,) = database.execute("SELECT facts FROM record_removals WHERE facts LIKE '%subjects\":[%'").fetchone()
    assert "'ann'" not in dump
    assert receipt not in dump
    assert json.loads(facts)["leaves"] == [[0, 1]]
    verified = cli("log", "verify")
    assert (
        verified.code,
        "1 record, tree size 2, 1 removed on purpose, 1 of them without a statement yet" in verified.out,
    ) == (0, True)
    # A day later the next seal states it.
    execute(home / "graph_agent.db", "UPDATE record_removals SET removed_at = '2026-01-01T00:00:00.000000+00:00'")
    for _ in range(2):
        assert cli("ask", "--user", "bob", "hello").code == 0
    verified = cli("log", "verify")
    assert (verified.code, "1 removed on purpose" in verified.out, "statement" in verified.out) == (0, True, False), (
        verified.out
    )
    with closing(sqlite3.connect(home / "graph_agent.db")) as database:
        ((text,),) = database.execute("SELECT text FROM tree_statements").fetchall()
    statement = json.loads(text)
    assert (statement["statement"], statement["count"], statement["reasons"]) == ("erased", 1, ["request 7"])
    # A removal that only imitates one is found.
    execute(home / "graph_agent.db", f"DELETE FROM record_leaves WHERE item = '{kept}'")
    assert "and no statement says why" in cli("log", "verify").out


def test_an_older_copy_under_another_address_is_found_by_the_same_head(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ask", "add a task to call mom")
    yesterday = copied(home, tmp_path / "yesterday.db")
    cli("ask", "show my tasks")
    assert cli("doctor").line("log").split()[1] == "ok"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{yesterday}")
    verified = cli("log", "verify")
    assert (verified.code, verified.out.count("removed    ")) == (1, 1)
    line = cli("doctor").line("log")
    assert line.split()[1] == "broken"
    assert "graph-agent log fork" in line


def test_a_checkpoint_that_was_kept_is_continued_or_not(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("ask", "hello")
    kept = tmp_path / "checkpoint"
    shutil.copy(heads_of(home)[0], kept)
    cli("ask", "hello again")
    assert cli("log", "consistency", "--from", str(kept)).out == f"the log continues the 1 leaf of {kept}\n"
    assert len(cli("log", "consistency", "--from", str(kept), "--json").json()["proof"]) == 1
    shutil.copy(heads_of(home)[0], kept)
    execute(home / "graph_agent.db", "DELETE FROM tree_leaves", "DELETE FROM tree_head")
    assert cli("log", "consistency", "--from", str(kept)).code == 1


def test_the_key_of_the_log_is_rotated(cli: Cli, home: Path) -> None:
    cli("ask", "hello")
    old = key_of(home)
    new = VerifierKey.parse(cli("log", "rotate").out.removeprefix("key: ").strip())
    assert (new.name, new != old) == (old.name, True)
    assert heads_of(home)[0].read_text(encoding="utf-8").count(f"— {old.name} ") == 2
    lines = (home / "log.key").read_text(encoding="utf-8").splitlines()
    (home / "log.key").write_text(f"{lines[0]}\n", encoding="utf-8")
    assert "intact: 1 record, tree size 2" in cli("log", "verify").out
    (home / "log.key").write_text(f"{SigningKey.generate(old.name, old.kind).to_text()}\n", encoding="utf-8")
    assert "is not a checkpoint of this log: it is not signed with a known key" in cli("log", "verify").err
    for head in heads_of(home):
        head.unlink()
    assert "signature  the head of the log is not the one that was signed" in cli("log", "verify").out


@pytest.mark.parametrize("text", ["PRIVATE+KEY+x", "too short"])
def test_a_signing_key_that_cannot_be_used_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LOG_SIGNING_KEY", text)
    ended = cli("log", "verify")
    assert (ended.code, ended.err.count("\n"), text in ended.err) == (3, 1, False)
    monkeypatch.setenv("LOG_SIGNING_KEY", "a random text of at least thirty-two characters")
    monkeypatch.setenv("LOG_ORIGIN", "tasks.example/log")
    assert cli("ask", "hello").code == 0
    monkeypatch.setenv("LOG_WITNESSES", "nonsense")
    assert (cli("log", "verify").code, "the witnesses of the log cannot be read" in cli("log", "verify").err) == (3, True)


def test_a_change_whose_decision_is_missing_and_a_decision_whose_change_is_missing_are_found(cli: Cli, home: Path) -> None:
    added, listed = (cli("ask", text, "--json").json()["decision_id"] for text in ("add a task to call mom", "show my tasks"))
    execute(home / "graph_agent.db", "DELETE FROM operations")
    found = cli("log", "verify", "--json")
    assert [(one["kind"], one["decision_id"]) for one in found.json()["violations"]] == [("effect", added)]
    gone = (f"DELETE FROM {table} WHERE decision_id = '{listed}'" for table in TABLES)
    execute(home / "graph_agent.db", "PRAGMA foreign_keys=OFF", *gone)
    kinds = sorted({one["kind"] for one in cli("log", "verify", "--json").json()["violations"]})
    assert kinds == ["effect", "removed"]
