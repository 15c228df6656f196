"""`graph-agent log verify` with the turns and the ledger of the other database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, heads_of

Script = Callable[..., str]
TABLES = ("tool_invocation_logs", "decision_logs")
UNANCHORED = "UNANCHORED: an administrator could have removed the end or rolled the database back"


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        for statement in statements:
            database.execute(statement)


def removed(cli: Cli) -> list[tuple[str, str]]:
    """Return the decisions that `log verify` reports as missing, each with what names it."""
    ended = cli("log", "verify", "--json")
    assert ended.code == 1
    missing = [one for one in ended.json()["violations"] if one["kind"] == "removed" and one["decision_id"]]
    texts = [(one["decision_id"], one["text"]) for one in missing]
    return sorted((decision_id, text.partition(": ")[2].partition(" of ")[0]) for decision_id, text in texts)


def test_a_removed_decision_or_log_is_found_by_the_turns_and_the_ledger(cli: Cli, home: Path) -> None:
    added, listed = (cli("ask", text, "--json").json()["decision_id"] for text in ("add a task to call mom", "show my tasks"))
    before = cli("log", "verify")
    assert before.code == 0
    assert "2 records, tree size 2, 3 turns and operations compared" in before.out

    execute(
        home / "graph_agent.db",
        "PRAGMA foreign_keys=OFF",
        f"DELETE FROM tree_leaves WHERE n = (SELECT n FROM record_leaves WHERE item = '{listed}')",
        f"DELETE FROM record_leaves WHERE item = '{listed}'",
        *(f"DELETE FROM {table} WHERE decision_id = '{listed}'" for table in TABLES),
    )
    assert removed(cli) == [(listed, "a turn")]
    tables = (*TABLES, "record_leaves", "tree_leaves", "tree_head")
    execute(home / "graph_agent.db", "PRAGMA foreign_keys=OFF", *(f"DELETE FROM {table}" for table in tables))
    for head in heads_of(home):
        head.unlink()
    assert removed(cli) == sorted([(added, "a turn"), (added, "an operation"), (listed, "a turn")])


def test_the_further_calls_of_a_card_are_not_taken_for_calls_of_a_missing_decision(
    cli: Cli, script: Script, token: tuple[str, str]
) -> None:
    for name in ("bread", "milk"):
        assert cli("ask", f"add {name}").code == 0
    tasks = cli("tools", "call", "list_tasks").json()["data"]["tasks"]
    remove = [{"name": "delete_task", "arguments": {"task_id": task["id"]}} for task in tasks]
    model = script({"function_calls": remove, "finish_reason": "tool_calls"})
    question = cli("ask", "delete both", "--json", "--model", model).json()
    assert len(question["decision"]["pending_action"]["calls"]) == 2
    of_question = "--conversation", question["conversation_id"], *token
    ended = cli("ask", "yes", "--json", "--model", model, *of_question).json()["decision"]
    assert (ended["decision_type"], len(ended["effects"])) == ("EXECUTE_PENDING", 2)
    verified = cli("log", "verify")
    assert (verified.code, "missing" in verified.out) == (0, False), verified.out


def test_pruned_decisions_are_not_missing(cli: Cli, home: Path) -> None:
    cli("ask", "add a task to call mom")
    for table in ("decision_logs", "turns", "operations"):
        execute(home / "graph_agent.db", f"UPDATE {table} SET created_at = '2026-01-01T00:00:00.000000+00:00'")
    assert "1 decisions" in cli("log", "prune", "--days", "1", "--yes").out
    ended = cli("log", "verify")
    assert (
        ended.code,
        "0 records, tree size 1, 1 removed on purpose, 1 of them without a statement yet, 2 turns" in ended.out,
    ) == (0, True)


def test_a_call_of_the_command_line_is_compared_with_its_decision(cli: Cli) -> None:
    assert cli("tools", "call", "add_task", '{"description": "call mom"}').code == 0
    assert cli("log", "verify").out == f"intact: 1 record, tree size 1, 1 turns and operations compared; {UNANCHORED}\n"


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize(("options", "runs"), [(["--workers", "2"], 1), (["--checkpoint", "checkpoint"], 2)])
def test_a_verification_in_parts_prints_what_one_process_prints(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], runs: int
) -> None:
    monkeypatch.chdir(home)
    # Parts of the real size have thousands of records.
    monkeypatch.setattr("graph_agent.record.tamper.tree_check.PART", 1)
    for text in ("hello", "add a task to call mom", "show my tasks"):
        cli("ask", text)
    execute(home / "graph_agent.db", "UPDATE decision_logs SET message = 'goodbye' WHERE message = 'hello'")
    for form in ([], ["--json"]):
        alone = cli("log", "verify", *form)
        assert alone.code == 1
        for _ in range(runs):
            divided = cli("log", "verify", *options, *form)
            assert (divided.code, divided.out, divided.err) == (alone.code, alone.out, alone.err)
    assert (home / "checkpoint").exists() == ("--checkpoint" in options)


def test_a_check_that_could_not_finish_ends_with_another_code_than_a_violation(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ask", "add a task to call mom")
    database, checkpoint = home / "graph_agent.db", tmp_path / "checkpoint"
    checkpoint.write_text(heads_of(home)[0].read_text(encoding="utf-8"), encoding="utf-8")
    checks = (["log", "verify"], ["log", "consistency", "--from", str(checkpoint)])
    copied = ["db", "copy", f"sqlite:///{database}"]
    assert [cli(*check).code for check in checks] == [0, 0]
    assert cli(*copied, f"sqlite:///{tmp_path / 'intact.db'}").code == 0

    execute(database, "UPDATE call_operations SET amounts = '{\"amount\":1}'")
    assert [cli(*check).code for check in checks] == [1, 0]
    assert cli(*copied, f"sqlite:///{tmp_path / 'changed.db'}").code == 1
    # It is neither intact nor changed.
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/no/such/folder/log.db")
    for check in (*checks, [*copied[:2], f"sqlite:///{tmp_path / 'none.db'}", f"sqlite:///{tmp_path / 'other.db'}"]):
        ended = cli(*check)
        assert (ended.code, ended.out) == (3, ""), check
        assert ended.err.startswith("graph-agent: "), check
    monkeypatch.delenv("DATABASE_URL")
    execute(database, "DROP TABLE tree_leaves")
    ended = cli("log", "verify")
    assert (ended.code, ended.out, ended.err) == (3, "", "graph-agent: The log cannot be reached right now.\n")
    # Its options are read before.
    assert cli("log", "consistency", "--from", str(tmp_path / "none")).code == 2


def test_a_log_that_was_rolled_back_is_a_violation(cli: Cli, home: Path) -> None:
    cli("ask", "add a task to call mom")
    heads_of(home)[0].write_text("not a checkpoint", encoding="utf-8")
    assert cli("log", "verify").code == 1
