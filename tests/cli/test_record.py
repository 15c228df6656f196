"""`graph-agent log export|import|metrics|prune|fixture` and `validate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from graph_agent.bootstrap.secret import record_keys
from graph_agent.db import Database
from graph_agent.settings import read_settings
from tests.audit.builders import make_record, store_records
from tests.cli.conftest import Cli
from tests.written_case import written_case

MONTH_AGO = datetime.now(UTC) - timedelta(days=31)


def test_list_takes_every_filter_and_prints_how_many_are_left_out(cli: Cli, log: Database) -> None:
    store_records(log, *(make_record(number, user="ann" if number % 2 else "bob") for number in range(1, 9)))
    arguments = ("--user", "ann", "--type", "INVOKE_TOOL", "--outcome", "SUCCESS", "--intent", "CREATE_TASK")
    listed = cli("log", "list", *arguments, "--since", "2026-03-10", "--by-model", "gemini", "--limit", "3", "--json")
    assert [json.loads(line)["user_id"] for line in listed.out.splitlines()] == ["ann"] * 3
    assert listed.err == "3 of 4; --offset 3 continues\n"
    assert len(cli("log", "list", *arguments, "--limit", "3", "--offset", "3").out.splitlines()) == 1
    assert cli("log", "list", "--until", "2026-03-09T00:00:00Z").out == ""


@pytest.mark.parametrize("arguments", [("--outcome", "OOPS"), ("--since", "tomorrow"), ("--type", "x"), ("--status", "x")])
def test_a_filter_that_makes_no_sense_is_wrong_usage(cli: Cli, arguments: tuple[str, str]) -> None:
    ended = cli("log", "list", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_an_export_is_replayed_without_a_log(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = cli("ask", "add a task to call mom", "--json").json()
    cli("ask", "what's the weather?")
    file = tmp_path / "export.jsonl"
    assert cli("log", "export", "--out", str(file)).code == 0
    only = cli("log", "export", "--id", answer["decision_id"]).out.splitlines()
    assert [json.loads(line)["type"] for line in only][-1] == "decision"
    assert len([line for line in only if '"type":"decision"' in line]) == 1

    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'other.db'}")
    assert cli("replay", str(file)).out == "2 of 2 identical\n"


def test_what_is_no_export_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "no.jsonl").write_text("hello", encoding="utf-8")
    ended = cli("replay", str(tmp_path / "no.jsonl"))
    assert (ended.code, ended.err) == (1, "graph-agent: object 1 of the file cannot be read: it is not JSON\n")
    assert "must be one of jsonl, json" in cli("log", "export", "--format", "xml").err


def test_metrics_are_a_few_tables(cli: Cli) -> None:
    cli("ask", "add a task to call mom")
    output = cli("log", "metrics", "--since", "1h").out
    for part in ("1 decisions, 100.0% successful", "SUCCESS:TASK_COMPLETED", "CREATE_TASK", "add_task", "p95"):
        assert part in output


def test_prune_removes_what_is_older_than_the_retention(cli: Cli, log: Database) -> None:
    records = make_record(1, at=MONTH_AGO), make_record(2, at=datetime.now(UTC))
    store_records(log, *records, key=record_keys(read_settings()))
    assert cli("log", "prune", "--json").json()["decisions"] == 1
    assert len(cli("log", "list").out.splitlines()) == 1
    assert "0 decisions" in cli("log", "prune").out


def test_pruning_leaves_a_log_that_can_be_verified(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("ask", "add a task to call mom")
    import graph_agent.cli.pruning as commands

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # noqa: ARG003 (enough of the real one's shape)
            return datetime.now(UTC) + timedelta(days=40)

    # No option sets the time of a command.
    monkeypatch.setattr(commands, "datetime", Later)
    assert cli("log", "prune", "--json").json()["decisions"] == 1
    assert cli("log", "verify").code == 0


def test_a_decision_becomes_a_case_that_validate_takes(cli: Cli, tmp_path: Path, token: tuple[str, str]) -> None:
    first = cli("ask", "add a task to call mom", "--json").json()
    cli("ask", "delete call mom", "--conversation", first["conversation_id"])
    last = cli("ask", "yes", "--json", "--conversation", first["conversation_id"], *token).json()
    file = tmp_path / "case.yaml"
    file.write_text(written_case(last["decision_id"]), encoding="utf-8")
    passed = cli("validate", str(file))
    assert passed.code == 0
    assert passed.out.splitlines()[-1].startswith("1 of 1 cases passed in ")
    assert "EXECUTE" not in file.read_text(encoding="utf-8")
    assert "expected_intent: CONFIRM_YES" in file.read_text(encoding="utf-8")


CASES = """
- {test_id: greets, input: hello, expected_tool: null, expected_outcome: "SUCCESS:RESPONSE_GIVEN"}
- {test_id: adds, input: add a task to call mom, expected_tool: list_tasks}
"""


def test_validate_names_what_failed_and_exits_1(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES, encoding="utf-8")
    ended = cli("validate", str(file))
    assert ended.code == 1
    assert "FAILED adds" in ended.out
    assert "expected tool list_tasks, got add_task" in ended.out
    assert "1 of 2 cases passed" in ended.out
    report = cli("validate", str(file), "--json")
    assert (report.code, report.json()["fail_count"], "failed: adds" in report.err) == (1, 1, True)
    suite = ElementTree.fromstring(cli("validate", str(file), "--junit").out)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [one.get("name") for one in suite if one.find("failure") is not None] == ["adds"]
    assert cli("validate", str(file), "--only", "greets").code == 0
    assert cli("validate", str(file), "--only", "nothing").code == 2
    assert cli("validate", str(file), "--json", "--junit").code == 2
    assert cli("validate", str(tmp_path / "missing.yaml")).code == 1


def test_validate_finds_a_model_that_says_something_else(cli: Cli, script: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("- {test_id: adds, input: add a task to call mom, expected_tool: add_task}", encoding="utf-8")
    ended = cli("validate", str(file), "--model", script({"content": "Done!", "finish_reason": "stop"}))
    assert (ended.code, "FAILED adds" in ended.out) == (1, True)
    assert cli("validate", str(file), "--model", "nobody").code == 2


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("options", [["--workers", "2"], ["--checkpoint", "checkpoint"]])
def test_a_divided_validation_reports_what_one_process_reports(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Parts of the real size have more cases.
    monkeypatch.setattr("graph_agent.bootstrap.validating.CASES", 2)
    cases = [f"- {{test_id: case-{n}, input: add milk, expected_tool: {'none' if n == 3 else 'add_task'}}}\n" for n in range(5)]
    (tmp_path / "cases.yaml").write_text("".join(cases))

    def report(*more: str) -> dict[str, Any]:
        ended = cli("validate", "cases.yaml", "--json", *more)
        assert (ended.code, "failed: case-3" in ended.err) == (1, True)
        found: dict[str, Any] = ended.json()
        for varying in ("report_id", "created_at", "duration_ms"):
            del found[varying]
        for result in found["results"]:
            del result["duration_ms"]
        return found

    alone = report()
    assert report(*options) == alone
    assert report(*options) == alone


def test_a_validation_with_a_scripted_model_cannot_be_divided(cli: Cli) -> None:
    ended = cli("validate", "--model", "scripted:script.json", "--workers", "2")
    assert ended.code == 2
