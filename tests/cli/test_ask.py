"""`graph-agent ask`."""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def deaf_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An OpenAI-compatible server that takes requests and never answers; set once the first one has come."""
    asked = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                connection.recv(1)
                asked.set()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        monkeypatch.setenv("OPENAI_MODEL", "some-model")
        yield asked
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in held:
        connection.close()


def conversation_of(err: str) -> str:
    return next(line for line in err.splitlines() if line.startswith("conversation: ")).split()[1]


def test_the_reply_and_below_it_the_receipts_go_to_stdout_and_everything_else_to_stderr(cli: Cli) -> None:
    ended = cli("ask", "add a task to call mom")

    reply, receipt = ended.out.splitlines()
    assert "call mom" in reply
    assert receipt == "  ✓ added 'call mom'"
    assert ended.err.splitlines()[0] == "model: rules: no GEMINI_API_KEY is set"
    uuid.UUID(conversation_of(ended.err))
    assert ended.code == 0


def test_json_is_one_object_with_decision_states_ids_and_reply(cli: Cli) -> None:
    ended = cli("ask", "add a task to call mom", "--json")

    told = ended.json()
    assert list(told) == ["decision", "states", "conversation_id", "decision_id", "reply"]
    assert told["decision"]["decision_type"] == "INVOKE_TOOL"
    assert told["decision"]["outcome_category"] == "SUCCESS:TASK_COMPLETED"
    assert told["decision"]["effects"] == ["added 'call mom'"]
    assert told["decision"]["decision_id"] == told["decision_id"]
    assert told["decision"]["response_text"] == told["reply"]
    assert (told["states"][0], told["states"][-1]) == ("BUILD_REQUEST", "BUILD_DECISION")
    assert ended.out.count("\n") == 1


def test_a_deletion_waits_for_the_yes_of_the_next_command(cli: Cli) -> None:
    cli("ask", "add a task to buy groceries")
    question = cli("ask", "delete the groceries task")
    assert "yes or no" in question.out

    done = cli("ask", "yes", "--conversation", conversation_of(question.err))

    assert done.out.splitlines()[-1] == "  ✓ deleted 'buy groceries'"
    assert "groceries" not in cli("ask", "show my tasks").out


def test_users_do_not_see_each_other(cli: Cli) -> None:
    ann = cli("ask", "add a task to call mom", "--user", "ann")

    assert "call mom" not in cli("ask", "show my tasks", "--user", "bob").out
    taken = cli("ask", "show my tasks", "--user", "bob", "--conversation", conversation_of(ann.err))
    assert (taken.code, taken.out) == (1, "")


def test_a_dash_reads_the_message_from_stdin(cli: Cli) -> None:
    assert "✓ added 'feed the cät'" in cli("ask", "-", stdin="add a task to feed the cät\n".encode()).out


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ({"error": "UNAVAILABLE"}, "ERROR:RESPONSE_GENERATION"),
        ({"error": "RATE_LIMITED"}, "REFUSAL:RATE_LIMITED"),
    ],
)
def test_a_message_that_could_not_be_served_ends_with_1_and_its_decision_is_told(
    cli: Cli, script: Callable[..., str], step: dict[str, Any], outcome: str
) -> None:
    ended = cli("ask", "hello", "--json", "--model", script(step))

    assert ended.json()["decision"]["outcome_category"] == outcome
    assert ended.code == 1


def test_a_refusal_out_of_scope_is_an_answer(cli: Cli) -> None:
    assert cli("ask", "what's the weather?").code == 0


def test_text_of_a_model_cannot_steer_the_terminal(cli: Cli, script: Callable[..., str]) -> None:
    answer = {"content": "\x1b[2Jgone \u202eback\x07 [bold]and[/bold] :smile:", "finish_reason": "stop"}

    out = cli("ask", "hello", "--model", script(answer)).out

    assert out.endswith("gone back [bold]and[/bold] :smile:\n")
    assert not set("\x1b\x07\u202e") & set(out)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ask",), "say something"),
        (("ask", ""), "The message is empty."),
        (("ask", "x" * 4001), "longer than 4000"),
        (("ask", "hi", "--conversation", "17"), "An id is a UUID"),
        (("ask", "hi", "--model", "gpt"), "choose rules, gemini, openai or scripted:FILE"),
        (("ask", "hi", "--model", "scripted:"), "choose rules, gemini, openai or scripted:FILE"),
        (("ask", "hi", "--timeout", "0"), "--timeout"),
        (("ask", "hi", "--batch", "-"), "--batch reads its messages from a file"),
        (("ask", "--batch", "no-such-file"), "no-such-file cannot be read"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_sentence(cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    ended = cli(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err


def test_wrong_usage_is_told_in_json_too_where_json_was_asked_for(cli: Cli) -> None:
    ended = cli("ask", "", "--json")

    assert ended.json() == {"error": {"code": "VALIDATION_ERROR", "message": "The message is empty."}}
    assert ended.code == 2


def test_a_missing_key_refuses_to_start_with_one_sentence(cli: Cli) -> None:
    ended = cli("ask", "hi", "--model", "gemini")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "graph-agent: the model 'gemini' needs GEMINI_API_KEY\n"


@pytest.mark.usefixtures("deaf_endpoint")
def test_a_model_that_hangs_is_left_at_the_timeout(cli: Cli) -> None:
    ended = cli("ask", "hello", "--json", "--model", "openai", "--timeout", "5")

    assert ended.json()["decision"]["outcome_category"] == "ERROR:RESPONSE_GENERATION"
    assert ended.code == 1


@pytest.mark.parametrize(
    ("sent", "on_interrupt", "code"),
    [
        (signal.SIGTERM, signal.default_int_handler, 143),
        (signal.SIGTERM, signal.SIG_IGN, 143),  # as in a shell's background
        (signal.SIGINT, signal.default_int_handler, 130),
    ],
)
def test_a_signal_ends_the_command_quietly_and_leaves_a_closed_row(
    cli: Cli, deaf_endpoint: threading.Event, sent: signal.Signals, on_interrupt: Any, code: int
) -> None:
    def interrupt() -> None:
        if deaf_endpoint.wait(60):
            os.kill(os.getpid(), sent)

    thread = threading.Thread(target=interrupt)
    thread.start()
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        ended = cli("ask", "hello", "--model", "openai")
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()

    assert (ended.code, ended.out) == (code, "")
    assert ended.err.splitlines() == ["model: openai (some-model): chosen on the command line"]
    rows = cli("log", "list")
    assert rows.out.count("\n") == 1
    assert "PENDING" not in rows.out
