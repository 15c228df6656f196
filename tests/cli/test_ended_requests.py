"""What was decided about a call that waited: printed once, with the next command of its conversation."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_questions import BOB, asked, policy

__all__ = ["policy"]
pytestmark = pytest.mark.usefixtures("policy")

ANN = ("--user", "ann")
APPROVED = "Approved by 'bob' as manager. Done: Add task 'buy bread'.\n  ✓ Add task 'buy bread'\n"


def test_what_was_decided_is_printed_once_before_the_next_reply(cli: Cli, launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    assert cli("ask", "hello", *ANN, "-c").out.count("Approved by") == 0
    cli("questions", "answer", "--yes", request_id, *BOB, *launched)
    told = cli("ask", "show my tasks", *ANN, "-c")
    assert told.out.startswith(APPROVED)
    assert told.out.count("Approved by") == 1
    assert "buy bread" in told.out.removeprefix(APPROVED)
    assert "Approved by" not in cli("ask", "show my tasks", *ANN, "-c").out


def test_continuing_without_a_message_prints_it_and_then_says_that_nothing_waits(cli: Cli, launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    assert cli("ask", *ANN, "-c").code == 1
    cli("questions", "answer", "--no", request_id, *BOB, *launched, "--reason", "not\u202e now")
    told = cli("ask", *ANN, "-c")
    assert told.code == 0
    assert told.out.startswith("Denied by 'bob' as manager, so nothing was done: add task 'buy bread'.\n")
    assert "  ! 'bob' says: 'not‹U+202E› now'\n" in told.out
    again = cli("ask", *ANN, "-c")
    assert (again.code, again.out, again.err) == (1, "", "no action waits in this conversation\n")
    assert "Denied by" not in cli("ask", "hello", *ANN, "-c").out


def test_the_ends_of_several_requests_are_printed_in_their_order(cli: Cli, launched: tuple[str, str]) -> None:
    first = asked(cli)
    second = str(cli("ask", "add a task to buy milk", *ANN, "-c", "--json").json()["decision"]["approval"]["action"]["id"])
    cli("questions", "answer", "--yes", second, *BOB, *launched)
    cli("questions", "cancel", first, *ANN, *launched)
    lines = cli("ask", *ANN, "-c").out.splitlines()
    assert [line.partition(" ")[0] for line in lines if not line.startswith(" ")] == ["Approved", "You"]


def test_json_stays_one_line_and_other_conversations_and_users_are_told_nothing(cli: Cli, launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    cli("questions", "answer", "--yes", request_id, *BOB, *launched)
    assert "Approved" not in cli("ask", "hello", *ANN).out
    assert "Approved" not in cli("ask", "hello", "--user", "eve").out
    told = cli("ask", "hello", *ANN, "--json", "--conversation", conversation_of(cli, request_id))
    assert "Approved" not in told.out
    assert told.json()["decision"]["decision_type"] == "RESPOND_ONLY"
    assert "Approved by 'bob' as manager. Done: Add task 'buy bread'.\n" in told.err


def conversation_of(cli: Cli, request_id: str) -> str:
    return str(cli("questions", "show", request_id, *ANN, "--json").json()["conversation_id"])


def test_a_chat_prints_what_was_decided_before_it_once(cli: Cli, launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    cli("questions", "answer", "--yes", request_id, *BOB, *launched)
    ended = cli("chat", *ANN, "--conversation", conversation_of(cli, request_id), stdin=b"show my tasks\nhello\n")
    assert ended.out.startswith(APPROVED)
    assert ended.out.count("Approved by") == 1
