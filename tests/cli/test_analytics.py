"""`graph-agent log sql` and `graph-agent log export --format parquet`."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli


def test_a_query_over_the_log_prints_a_table_or_json(cli: Cli) -> None:
    cli("ask", "add a task to call mom", "--user", "ann")
    cli("ask", "what's the weather?", "--user", "bob")
    sql = "SELECT user_id, category, created_at IS NOT NULL AS dated FROM decisions ORDER BY user_id"

    lines = cli("log", "sql", sql, "--json").out.splitlines()
    assert lines == [
        '{"user_id": "ann", "category": "SUCCESS", "dated": true}',
        '{"user_id": "bob", "category": "REFUSAL", "dated": true}',
    ]
    table = [line.split() for line in cli("log", "sql", sql).out.splitlines()]
    assert table[:3] == [["user_id", "category", "dated"], ["ann", "SUCCESS", "True"], ["bob", "REFUSAL", "True"]]


def test_an_export_is_queried_and_continued(cli: Cli, tmp_path: Path) -> None:
    directory = tmp_path / "export"
    cli("ask", "add a task to call mom")
    assert cli("log", "export", "--format", "parquet", str(directory)).out.startswith("decisions: 1, days: 1, days written: 1,")
    cli("ask", "show my tasks")
    count = "SELECT count(*) AS n FROM decisions"
    assert cli("log", "sql", "--from", str(directory), count, "--json").out == '{"n": 1}\n'
    exported = cli("log", "export", "--format", "parquet", str(directory)).out
    assert exported == f"decisions: 2, days: 1, days written: 1, directory: {directory}\n"
    assert cli("log", "sql", "--from", str(directory), count, "--json").out == '{"n": 2}\n'
    assert cli("log", "export", "--format", "parquet", str(directory)).out.startswith("decisions: 2, days: 1, days written: 0,")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["log", "export", "--format", "parquet"], "writes to a directory"),
        (["log", "export", "--format", "parquet", "x", "--user", "ann"], "only --since and --until"),
        (["log", "export", "x"], "--out x writes to a file"),
        (["log", "export", "--format", "parquet", "/dev/null/x"], "cannot be written"),
        (["log", "sql", "SELECT 1", "--from", "missing"], "contains no export"),
        (["log", "sql", "DROP TABLE decisions"], "must be one SELECT"),
        (["log", "sql", "SELECT nothing FROM decisions"], "DuckDB: Binder Error"),
    ],
)
def test_wrong_usage_gets_one_sentence(cli: Cli, arguments: list[str], sentence: str) -> None:
    cli("ask", "add a task to call mom")
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_a_stored_text_cannot_control_the_terminal(cli: Cli) -> None:
    cli("ask", "add a task \x1b]0;owned\x07")
    for form in ([], ["--json"]):
        assert "\x1b" not in cli("log", "sql", "SELECT message FROM decisions", *form).out


@pytest.mark.parametrize("arguments", [["log", "sql", "SELECT 1"], ["log", "export", "--format", "parquet", "x"]])
def test_without_the_extra_one_sentence_names_it(cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("graph_agent.analytics") or name.endswith("log_parquet")]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without_extra(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] in {"pyarrow", "duckdb"}:
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **more)

    # The extra is installed here.
    monkeypatch.setattr(builtins, "__import__", without_extra)
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "graph-agent: this needs the extra 'analytics': pip install 'graph-agent[analytics]'\n"
