"""A question is answered by a person in a terminal, or with the launch token: no other command answers it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.terminal import PROGRAM, typed

NEEDS_A_PERSON = "graph-agent: a question is answered by a person, in a terminal or on the page\n"
QUESTION = "Delete task 'call mom'. Should I go ahead? Please answer yes or no.\n"


@pytest.fixture
def asked(cli: Cli) -> Any:
    """The answer with the question whether to delete the only task."""
    cli("ask", "add a task to call mom")
    return cli("ask", "delete call mom", "--json").json()


def pending_id(asked: Any) -> str:
    return str(asked["decision"]["pending_action"]["id"])


def tasks(cli: Cli) -> int:
    return int(cli("tools", "call", "list_tasks").json()["data"]["count"])


@pytest.mark.parametrize("answer", [["-c"], ["-c", "yes"], ["-c", "no"], ["yes", "--conversation"]])
def test_no_command_without_a_terminal_answers_a_question(cli: Cli, asked: Any, answer: list[str]) -> None:
    command = ["ask", *answer, *([asked["conversation_id"]] if answer[-1] == "--conversation" else [])]
    for stdin in (b"", b"yes\n", b"y\nyes\nyes\n"):
        refused = cli(*command, stdin=stdin)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.endswith(NEEDS_A_PERSON)
    assert tasks(cli) == 1


def test_a_pseudo_terminal_alone_is_no_person(cli: Cli, asked: Any) -> None:
    # The standard input of a program that has no controlling terminal.
    side = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    command = [PROGRAM, "questions", "answer", pending_id(asked)]
    ended = subprocess.run(command, stdin=side, capture_output=True, text=True, start_new_session=True, check=False)
    os.close(side)
    assert (ended.returncode, ended.stderr.endswith(NEEDS_A_PERSON)) == (2, True)
    assert tasks(cli) == 1


def test_words_that_a_rule_of_the_policy_reads_as_a_yes_only_ask_again(cli: Cli, asked: Any) -> None:
    again = cli("ask", "-c", "delete it")
    assert again.out.endswith(QUESTION)
    assert asked["reply"] in again.out
    assert QUESTION in cli("step", "yes", "--conversation", asked["conversation_id"]).out
    # After the third answer to no question the action is dropped.
    assert (
        "Not done: delete task 'call mom'." in cli("chat", "--conversation", asked["conversation_id"], stdin=b"yes\nyes\n").out
    )
    assert tasks(cli) == 1


@pytest.mark.parametrize(
    ("words", "answer", "code", "left", "reply"),
    [
        (["-c"], "yes", 0, 0, "Done: Delete task 'call mom'."),
        (["-c", "no"], "yes", 0, 0, "Done: Delete task 'call mom'."),
        (["answer"], "yes", 0, 0, "Done: Delete task 'call mom'."),
        (["-c", "yes"], "no", 0, 1, "OK, I won't do that. Nothing was changed."),
        (["answer"], "no", 0, 1, "OK, I won't do that. Nothing was changed."),
        (["answer", "--yes"], "no", 0, 1, "OK, I won't do that. Nothing was changed."),
        (["answer"], "perhaps", 1, 1, "that is neither yes nor no: the question is still open"),
        (["answer", "--no"], "", 1, 1, "that is neither yes nor no: the question is still open"),
    ],
)
def test_the_question_is_shown_again_in_the_terminal_and_what_is_typed_below_it_counts(
    cli: Cli, asked: Any, words: list[str], answer: str, code: int, left: int, reply: str
) -> None:
    command = [PROGRAM, *(("questions", *words, pending_id(asked)) if words[0] == "answer" else ("ask", *words))]
    ended, shown = typed(command, [answer])
    assert ended == code
    assert f"{QUESTION}> {answer}\n{reply}\n" in shown
    assert tasks(cli) == left


def test_what_was_typed_before_the_question_was_shown_does_not_answer_it(cli: Cli, asked: Any) -> None:
    ended, _ = typed([PROGRAM, "questions", "answer", pending_id(asked)], [], early="yes\nyes\n")
    assert (ended, tasks(cli)) == (1, 1)


def test_a_pipe_does_not_answer_in_a_terminal(cli: Cli, asked: Any) -> None:
    ended, shown = typed(["sh", "-c", f"echo yes | {PROGRAM} questions answer {pending_id(asked)}"], ["yes"])
    assert (ended, tasks(cli)) == (2, 1)
    assert shown.endswith(NEEDS_A_PERSON)


def test_a_chat_in_a_terminal_answers_the_question_that_it_shows(cli: Cli) -> None:
    cli("ask", "add a task to call mom")
    ended, shown = typed([PROGRAM, "chat"], ["delete call mom", "yes", "/quit"])
    assert ended == 0
    assert "✓ Delete task 'call mom'" in shown
    assert tasks(cli) == 0


def test_the_launch_token_answers_without_a_terminal_and_no_other_text_does(
    cli: Cli, asked: Any, token: tuple[str, str], tmp_path: Path
) -> None:
    for text in ("", "\n", "Authorization: Bearer \n", "Authorization: Bearer nonsense\n", "x" * 10_000):
        (tmp_path / "wrong").write_text(text, encoding="utf-8")
        refused = cli("questions", "answer", "--yes", pending_id(asked), "--token-file", str(tmp_path / "wrong"))
        assert (refused.code, "does not have the launch token" in refused.err) == (2, True)
    assert cli("questions", "answer", "--yes", pending_id(asked), "--token-file", str(tmp_path / "none")).code == 2
    assert tasks(cli) == 1
    assert "✓ Delete task 'call mom'" in cli("questions", "answer", "--yes", pending_id(asked), *token).out


def test_a_tool_that_needs_a_yes_is_called_by_a_person_or_with_the_launch_token(cli: Cli, token: tuple[str, str]) -> None:
    task = cli("tools", "call", "add_task", '{"description": "call mom"}').json()["data"]["task"]["id"]
    command = ["tools", "call", "delete_task", json.dumps({"task_id": task})]
    refused = cli(*command, stdin=b"yes\n")
    needed = "delete_task needs a yes, in a terminal or by --yes with the launch token (--token-file FILE)"
    assert (refused.code, refused.out, refused.err) == (2, "", f"graph-agent: nothing was done: {needed}\n")
    # No question waits in a conversation: the sentence says all ways to give the yes.
    assert cli("ask", "-c").code == 1
    assert tasks(cli) == 1
    refused = cli(*command, "--yes")
    assert (refused.code, refused.out, "--yes needs the launch token" in refused.err) == (2, "", True)
    for answer in ("no", "perhaps"):
        ended, shown = typed([PROGRAM, *command], [answer])
        assert (ended, shown) == (0, f"{QUESTION}> {answer}\nOK, I won't do that. Nothing was changed.\n")
    ended, shown = typed([PROGRAM, *command], ["yes"])
    assert (ended, "Delete task 'call mom'" in shown) == (0, True)
    task = cli("tools", "call", "add_task", '{"description": "call mom"}').json()["data"]["task"]["id"]
    assert '"preview": "call mom"' in cli("tools", "call", "delete_task", json.dumps({"task_id": task}), "--yes", *token).out


def test_nothing_waits_without_a_question(cli: Cli) -> None:
    cli("ask", "hi")
    nothing = cli("ask", "-c")
    assert (nothing.code, nothing.err) == (1, "no action waits in this conversation\n")
