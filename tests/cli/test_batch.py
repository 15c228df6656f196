"""`graph-agent ask --batch`: many messages, each in an empty environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def anonymous(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without its ids, which differ in every run."""
    decision = {**answer["decision"], "decision_id": None}
    return {**answer, "decision": decision, "decision_id": None, "conversation_id": None}


def test_every_line_has_the_same_answer_as_alone_in_an_empty_home(cli: Cli, tmp_path: Path) -> None:
    texts = ["add a task to call mom", "show my tasks", "delete the groceries task", "yes", "add a task to call mom"]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts), encoding="utf-8")
    answers = objects(cli("ask", "--batch", str(file)).out)

    alone = {}
    for text in ("show my tasks", "delete the groceries task", "yes", "add a task to call mom"):
        alone[text] = anonymous(cli("ask", text, "--json").json())

    assert [anonymous(line) for line in answers] == [alone[text] for text in texts]


def test_nothing_of_a_batch_is_kept(cli: Cli) -> None:
    cli("ask", "--batch", "-", stdin=b"add a task to call mom\n")

    assert "call mom" not in cli("ask", "show my tasks").out
    assert "add a task" not in cli("log", "list").out


def test_an_invalid_line_gives_an_error_and_the_others_are_answered(cli: Cli) -> None:
    lines = [b"hello", b"", b"x" * 4001, b"nul \0", b"\xff\xfe", b"a task\r", b"show my tasks"]

    ended = cli("ask", "--batch", "-", stdin=b"\n".join(lines))

    answers = objects(ended.out)
    assert [line.get("error", {}).get("code") for line in answers] == [None, *["VALIDATION_ERROR"] * 4, None, None]
    assert [line["line"] for line in answers if "error" in line] == [2, 3, 4, 5]
    assert "4 of 7 lines could not be served" in ended.err
    assert ended.code == 1


def test_a_line_whose_model_fails_is_not_served(cli: Cli, script: Callable[..., str]) -> None:
    steps = [{"error": "UNAVAILABLE"}, {"content": "Hi.", "finish_reason": "stop"}]

    ended = cli("ask", "--batch", "-", "--model", script(*steps), stdin=b"a\nb\n")

    assert [line["reply"] for line in objects(ended.out)][1:] == ["Hi."]
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "1 of 2 lines could not be served")


def test_more_lines_than_a_user_may_send_in_a_minute_are_served(cli: Cli) -> None:
    answers = objects(cli("ask", "--batch", "-", stdin=b"hi\n" * 70).out)

    assert {line["decision"]["outcome_category"] for line in answers} == {"SUCCESS:RESPONSE_GIVEN"}
    assert len(answers) == 70
    assert len({line["conversation_id"] for line in answers}) == 70


def test_a_script_goes_on_from_line_to_line(cli: Cli, script: Callable[..., str]) -> None:
    steps = [{"content": text, "finish_reason": "stop"} for text in ("One.", "Two.")]

    answers = objects(cli("ask", "--batch", "-", "--model", script(*steps), stdin=b"a\nb\n").out)

    assert [line["reply"] for line in answers] == ["One.", "Two."]


def test_an_empty_file_is_an_empty_batch(cli: Cli) -> None:
    ended = cli("ask", "--batch", "-")

    assert (ended.code, ended.out) == (0, "")
