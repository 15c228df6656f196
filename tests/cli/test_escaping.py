"""Stored and received text cannot control the terminal, or imitate what the program prints."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from rich.table import Table
from rich.text import Text

from graph_agent.cli.running import print_stderr
from graph_agent.cli.show import json_line, mark_imitations, stdout_console
from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import AgentDecision, DecisionType
from graph_agent.models.said import SaidCell, SaidTable
from graph_agent.reply.authored import by_code, name_authors, plain, table_by_server
from graph_agent.reply.text import visible
from tests.cli.conftest import Cli
from tests.written_case import written_case

HOSTILE = "a\x1b[2Jb\x9b31mc\u202ed\u2066e\u200bf\x7fg\U000e0041h\u2028i\rj\ud800k"
ESCAPED = "a‹U+001B›[2Jb‹U+009B›31mc‹U+202E›d‹U+2066›e‹U+200B›f‹U+007F›g‹U+E0041›h‹U+2028›i‹U+000D›j‹U+D800›k"


def test_control_and_format_characters_are_escaped_and_text_is_not() -> None:
    assert visible(HOSTILE) == ESCAPED
    text = "Grüße, 世界 👩\u200d👩 ✓\n\tnext"
    assert visible(text) == text


def test_an_escaped_json_line_has_the_same_value() -> None:
    line = json_line({HOSTILE: [HOSTILE]})
    assert json.loads(line) == {HOSTILE: [HOSTILE]}
    assert line.isprintable()


def test_the_console_and_the_messages_escape_whatever_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("head")
    table.add_row(HOSTILE[:-2])
    console = stdout_console()
    for printed in (HOSTILE[:-2], Text.assemble((HOSTILE[:-2], "red")), table):
        console.print(printed)
    print_stderr(HOSTILE)
    captured = capsys.readouterr()
    assert not set(captured.out + captured.err) & set("\x1b\x9b\u202e\u2066\u200b\x7f\U000e0041\u2028")
    assert captured.err == ESCAPED + "\n"


@pytest.mark.parametrize("command", [("log", "list"), ("log", "list", "--json"), ("log", "verify")])
def test_ids_in_a_database_that_others_wrote_to_are_escaped(
    cli: Cli, home: Path, script: Callable[..., str], command: tuple[str, ...]
) -> None:
    cli("ask", "hi", "--model", script({"content": "Hello.", "finish_reason": "stop"}))
    with sqlite3.connect(home / "graph_agent.db") as log:
        log.execute("UPDATE decision_logs SET decision_id = ?, user_id = ?", ("id\x1b[2J\u202e\x9b", "ann\x1b[2J\u202e"))
        log.execute("UPDATE record_leaves SET item = ?", ("id\x1b[2J\u202e\x9b",))
    ended = cli(*command)
    assert ("‹U+202E›" if command in (("log", "list"), ("log", "verify")) else "\\u202e") in ended.out
    assert not set(ended.out + ended.err) & set("\x1b\x9b\u202e")


def test_the_columns_of_a_table_are_aligned_and_no_cell_adds_a_line() -> None:
    cells = [("1", "'本'"), ("12", "'✓ a\u202e'"), ("3", "")]
    rows = tuple(tuple(SaidCell(text=text) for text in row) for row in cells)
    table = SaidTable(columns=("Loan", "Item"), rows=rows, more="… and 2 more")
    reply = by_code("Done: List loans.\n  Loans:\n") + table_by_server(table, "    - loan 1") + by_code("\n  Total: 5")
    decision = AgentDecision(
        decision_type=DecisionType.EXECUTE_PENDING, response_text=plain(reply), authors=name_authors(TextAuthor.USER, reply)
    )
    assert decision.reply == "Done: List loans.\n  Loans:\n    - loan 1\n  Total: 5"
    assert mark_imitations(decision).split("\n") == [
        "Done: List loans.",
        "  Loans:",
        "    Loan  Item",
        "    1     '本'",
        "    12    '✓ a‹U+202E›'",
        "    3",
        "    … and 2 more",
        "  Total: 5",
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("✓ Deleted everything.", "  ✓ Deleted.", "\u200d ✓ Deleted.", "\u00a0✔ Deleted.", "✅ Deleted.", "√ Deleted."),
        *("  ! Not Deleted.", "！ Deleted: no.", "Deleted 'a'. Should I go ahead? Please answer yes or no."),
    ],
)
def test_a_line_of_the_model_that_looks_like_one_of_the_runtime_is_marked(
    cli: Cli, script: Callable[..., str], line: str
) -> None:
    decision = AgentDecision(decision_type=DecisionType.RESPOND_ONLY, response_text=f"Done.\n{line}\nBye ✓")
    assert mark_imitations(decision) == f"Done.\n(model) {visible(line)}\nBye ✓"
    reply: dict[str, Any] = {"content": f"Done.\n{line}", "finish_reason": "stop"}
    ended = cli("ask", "hi", "--model", script(reply))
    lines = [shown for shown in ended.out.splitlines() if "Deleted" in shown]
    assert lines
    assert all(shown.startswith("(model) ") for shown in lines)


def test_a_policy_file_is_read_only_up_to_its_limit(cli: Cli, tmp_path: Path, script: Callable[..., str]) -> None:
    answer = cli("ask", "hi", "--json", "--model", script({"content": "Hello.", "finish_reason": "stop"})).json()
    policy = tmp_path / "policy.md"
    with policy.open("wb") as file:
        file.truncate(1 << 33)
    ended = cli("replay", answer["decision_id"], "--constitution", str(policy))
    assert ended.code != 0
    assert len(ended.err.splitlines()) == 1


def test_a_checkpoint_file_is_read_only_up_to_its_limit(cli: Cli, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with checkpoint.open("wb") as file:
        file.truncate(1 << 33)
    ended = cli("log", "consistency", "--from", str(checkpoint))
    assert (ended.code, ended.err.count("\n"), "is not a checkpoint of this log" in ended.err) == (2, 1, True)


def test_a_test_case_and_a_junit_report_escape_their_texts(cli: Cli, tmp_path: Path, script: Callable[..., str]) -> None:
    said = "groceries \u202e\u2066 for 世界"
    answer = cli("ask", said, "--json", "--model", script({"content": "Hello.", "finish_reason": "stop"})).json()
    fixture = written_case(answer["decision_id"])
    assert (fixture.isascii(), yaml.safe_load(fixture)[0]["input"]) == (True, said)
    plain = cli("ask", "世界", "--json", "--model", script({"content": "Hello.", "finish_reason": "stop"})).json()
    assert "世界" in written_case(plain["decision_id"])
    fixture = fixture.replace(f"decision-{answer['decision_id']}", json.dumps(said))
    cases = tmp_path / "cases\u202e.yaml"
    cases.write_text(fixture.replace("expected_outcome: ", 'reply_equals: "\\e[2J"\n  expected_outcome: '), encoding="utf-8")
    report = cli("validate", str(cases), "--junit").out
    (case,) = ElementTree.fromstring(report)
    assert case.get("name") == "groceries ‹U+202E›‹U+2066› for 世界"
    assert "‹U+001B›[2J" in str(case.find("failure").text)  # type: ignore[union-attr] # the case has failed
    assert not set(report) & set("\x1b\u202e\u2066")
