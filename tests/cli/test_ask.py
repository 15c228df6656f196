"""`graph-agent ask`."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graph_agent.models.decision import AnswerState
from graph_agent.models.llm import LLMErrorCause
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.causes import CAUSES
from graph_agent.reply.fixed import void_answer_reply
from tests.cli.conftest import Cli


@pytest.fixture
def deaf_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An OpenAI-compatible server that never answers. The event is set when the first request arrives."""
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


@pytest.mark.usefixtures("noon")
def test_the_limit_on_the_tokens_of_a_day_applies_to_commands(
    cli: Cli, script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_DAY_TOKENS", "10")
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    model = script({"content": "Hello.", "finish_reason": "stop", "usage": usage})

    assert cli("ask", "hi", "--model", model, "--timeout", "20").out == "Hello.\n"
    refused = cli("ask", "hi", "--model", model, "--timeout", "20")
    assert (refused.code, refused.out) == (1, "You have used up what I may do for you today. Please come back tomorrow.\n")


def test_the_reply_and_below_it_the_receipts_go_to_stdout_and_everything_else_to_stderr(cli: Cli) -> None:
    ended = cli("ask", "add a task to call mom")

    reply, receipt = ended.out.splitlines()
    assert "call mom" in reply
    assert receipt == "  ✓ Add task 'call mom'"
    assert ended.err.splitlines()[0] == "model: embedded: no GEMINI_API_KEY is set"
    uuid.UUID(conversation_of(ended.err))
    assert ended.code == 0


def test_json_is_one_object_with_decision_states_ids_and_reply(cli: Cli) -> None:
    ended = cli("ask", "add a task to call mom", "--json")

    answer = ended.json()
    assert list(answer) == ["decision", "states", "conversation_id", "decision_id", "reply"]
    assert answer["decision"]["decision_type"] == "INVOKE_TOOL"
    assert answer["decision"]["outcome_category"] == "SUCCESS:TASK_COMPLETED"
    assert answer["decision"]["effects"] == ["Add task 'call mom'"]
    assert answer["decision"]["decision_id"] == answer["decision_id"]
    assert answer["decision"]["response_text"] == answer["reply"]
    assert (answer["states"][0], answer["states"][-1]) == ("BUILD_REQUEST", "BUILD_DECISION")
    assert ended.out.count("\n") == 1


@pytest.mark.parametrize("task", ["می\u200cخواهم نان", "lunch 👨\u200d👩\u200d👧"])
def test_a_task_is_stored_and_asked_back_with_its_joiners(cli: Cli, task: str, token: tuple[str, str]) -> None:
    assert f"Add task '{task}'" in cli("ask", f"add a task to {task}").out
    assert f"Delete task '{task}'" in cli("ask", f"delete {task}").out
    assert f"Delete task '{task}'" in cli("ask", "-c", "yes", *token).out


def test_a_hidden_character_in_a_task_is_seen_before_the_user_confirms(cli: Cli, script: Callable[..., str]) -> None:
    calls = {"finish_reason": "tool_calls"}
    add = calls | {"function_calls": [{"name": "add_task", "arguments": {"description": "pay\u3164bob\u202e"}}]}
    said = {"content": "Added.", "finish_reason": "stop"}
    assert "✓ Add task 'pay‹U+3164›bob‹U+202E›'" in cli("ask", "add it", "--model", script(add, said)).out
    (task,) = cli("tools", "call", "list_tasks").json()["data"]["tasks"]
    assert task["description"] == "pay\u3164bob\u202e"
    delete = calls | {"function_calls": [{"name": "delete_task", "arguments": {"task_id": task["id"]}}]}
    assert "Delete task 'pay‹U+3164›bob‹U+202E›'. Should I" in cli("ask", "delete it", "--model", script(delete)).out


def test_a_deletion_is_confirmed_without_an_id(cli: Cli, token: tuple[str, str]) -> None:
    cli("ask", "add a task to call mom")
    asked = cli("ask", "delete call mom")
    assert asked.err == "to answer: graph-agent ask -c\n"

    assert cli("ask", "-c", "yes", *token).out.splitlines()[-1] == "  ✓ Delete task 'call mom'"
    assert cli("ask", "--continue", "yes", *token).out != ""
    assert "call mom" not in cli("ask", "show my tasks").out


def test_the_printed_command_answers_for_the_same_user_and_roles(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_ROLES", "groups=support")
    options = ["--user", "bob smith", "--role", "support"]
    cli("ask", "add a task to call mom", *options)
    (hint,) = [line for line in cli("ask", "delete call mom", *options).err.splitlines() if line.startswith("to answer: ")]
    assert hint == "to answer: graph-agent ask --user 'bob smith' --role support -c"
    answer = shlex.split(hint.removeprefix("to answer: "))
    assert "✓ Delete task 'call mom'" in cli(*answer[1:], "yes", *token).out


def test_a_yes_answers_the_question_of_its_own_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    cli("ask", "add a task to call mom")
    cli("ask", "add a task to feed the cat")
    cli("ask", "delete call mom")
    with monkeypatch.context() as other_terminal:
        # A process cannot choose the terminal session that it belongs to.
        other_terminal.setattr(os, "getsid", lambda _: 1)
        elsewhere = cli("ask", "delete feed the cat")
    assert [line.partition(":")[0] for line in elsewhere.err.splitlines()] == ["model", "to answer", "conversation"]

    assert "✓ Delete task 'call mom'" in cli("ask", "-c", "yes", *token).out
    assert "feed the cat" in cli("ask", "show my tasks").out


@pytest.mark.parametrize("words", ["yes", "delete it"])
@pytest.mark.parametrize("named", [False, True])
def test_a_question_that_another_terminal_asked_is_shown_here_before_a_yes_confirms_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: str, named: bool, token: tuple[str, str]
) -> None:
    cli("ask", "add a task to call mom")
    conversation = conversation_of(cli("ask", "show my tasks", "-v").err)
    here = ("--conversation", conversation) if named else ("-c",)
    with monkeypatch.context() as other_terminal:
        # A process cannot choose the terminal session that it belongs to.
        other_terminal.setattr(os, "getsid", lambda _: 1)
        cli("ask", "delete call mom", "--conversation", conversation)

    shown = cli("ask", *here, words, *token).out
    assert shown.endswith("Delete task 'call mom'. Should I go ahead? Please answer yes or no.\n")
    assert "✓ Delete task 'call mom'" in cli("ask", *here, words, *token).out


def test_a_yes_in_one_terminal_does_not_answer_a_later_question_of_another_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    cli("ask", "add a task to call mom")
    cli("ask", "add a task to feed the cat")
    conversation = conversation_of(cli("ask", "delete call mom", "-v").err)
    with monkeypatch.context() as other_terminal:
        # A process cannot choose the terminal session that it belongs to.
        other_terminal.setattr(os, "getsid", lambda _: 1)
        cli("ask", "delete feed the cat", "--conversation", conversation)

    again = cli("ask", "-c", "yes", *token).out
    assert again.startswith("Your answer may belong to another question, so nothing was done.")
    assert "Delete task 'feed the cat'" in again
    assert "✓ Delete task 'feed the cat'" in cli("ask", "-c", "yes", *token).out
    assert "call mom" in cli("ask", "show my tasks").out


def test_a_new_terminal_continues_the_last_conversation_of_the_user(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    cli("ask", "add a task to call mom", "--user", "ann")
    conversation = conversation_of(cli("ask", "delete call mom", "--user", "ann", "-v").err)
    # A process cannot choose the terminal session that it belongs to.
    monkeypatch.setattr(os, "getsid", lambda _: 1)

    done = cli("ask", "-c", "yes", "--user", "ann", *token)
    assert "✓ Delete task 'call mom'" in done.out
    assert conversation_of(done.err) == conversation
    nothing = cli("ask", "-c", "yes", "--user", "bob")
    assert (nothing.code, nothing.err.splitlines()[-1]) == (1, "graph-agent: There is no conversation to continue yet.")
    assert cli("ask", "-c", "yes", "--conversation", conversation).code == 2


def test_the_model_and_the_conversation_are_named_once_in_a_terminal_session_or_on_request(cli: Cli) -> None:
    first, second, asked = cli("ask", "hi"), cli("ask", "hi"), cli("ask", "hi", "--verbose")
    for named in (first, asked):
        assert [line.partition(":")[0] for line in named.err.splitlines()] == ["model", "conversation"]
    assert second.err == ""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("--user", ""), "--user"), (("--user", " "), "--user"), (("--timeout", "nan"), "--timeout")],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_option(
    cli: Cli, arguments: tuple[str, ...], name: str
) -> None:
    ended = cli("ask", "hi", *arguments)
    assert ended.code == 2
    assert name in ended.err


def test_an_action_is_confirmed_or_declined_by_the_id_that_its_question_prints(cli: Cli, token: tuple[str, str]) -> None:
    cli("ask", "add a task to call mom")
    asked = cli("ask", "delete the call mom task", "-v")
    (pending_id,) = re.findall(r"questions answer (\S+)", asked.err)
    declined = cli("questions", "answer", "--no", pending_id, *token)
    assert (declined.code, declined.out) == (0, "OK, I won't do that. Nothing was changed.\n")
    late = cli("questions", "answer", "--yes", pending_id, *token)
    assert (late.code, late.out) == (1, "")
    assert "You have answered this question already." in late.err
    again = cli("ask", "delete the call mom task", "-v")
    (pending_id,) = re.findall(r"questions answer (\S+)", again.err)
    assert "Delete task 'call mom'" in cli("questions", "answer", "--yes", pending_id, *token).out


def test_a_yes_in_a_shell_without_the_files_of_the_question_prints_the_command_that_answers_it_and_uses_nothing_up(
    cli: Cli, tmp_path: Path, token: tuple[str, str]
) -> None:
    constitution, policy = tmp_path / "my constitution.md", tmp_path / "policy.cedar"
    constitution.write_text(Constitution.load(None).text + "\nBe brief.\n")
    policy.write_text("permit (principal, action, resource);")
    files = ["--constitution", str(constitution), "--conditions", str(policy)]
    cli("ask", "add a task to call mom")
    asked = cli("ask", "delete the call mom task", "-v", *files)
    (pending_id,) = re.findall(r"questions answer (\S+)", asked.err)
    for answer in (["questions", "answer", "--yes", pending_id], ["ask", "yes", "-c"]):
        refused = cli(*answer, *token)
        assert (refused.code, refused.out) == (1, f"{void_answer_reply(AnswerState.OTHER_RULES)}\n")
        assert f"the constitution differs: asked with {constitution}, answered with the shipped one\n" in refused.err
        assert f"the conditions file differs: asked with {policy}, answered with none\n" in refused.err
    (command,) = re.findall(r"to answer it there: (.*)", refused.err)
    assert command == shlex.join(["graph-agent", "questions", "answer", pending_id, *files])
    policy.write_text("permit (principal, action, resource) when { true };")
    changed = cli(*shlex.split(command)[1:], "--yes", *token)
    assert f"the conditions file {policy} (or GRAPH_AGENT_ROLES or GRAPH_AGENT_TIME_ZONE) has changed since" in changed.err
    policy.write_text("permit (principal, action, resource);")
    assert "✓ Delete task 'call mom'" in cli(*shlex.split(command)[1:], "--yes", *token).out


def test_a_question_without_a_policy_is_answered_without_the_one_of_the_environment(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    policy = tmp_path / "policy.cedar"
    policy.write_text("permit (principal, action, resource);")
    cli("ask", "add a task to call mom")
    (pending_id,) = re.findall(r"questions answer (\S+)", cli("ask", "delete the call mom task", "-v").err)
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(policy))
    refused = cli("questions", "answer", "--yes", pending_id, *token)
    assert f"the conditions file differs: asked with none, answered with {policy}\n" in refused.err
    assert f"to answer it there: env -u GRAPH_AGENT_CONDITIONS graph-agent questions answer {pending_id}\n" in refused.err


def test_a_dropped_action_is_printed_as_a_notice(cli: Cli) -> None:
    conversation = conversation_of(cli("ask", "add a task to call mom").err)
    cli("ask", "delete the call mom task", "--conversation", conversation)
    assert "  ! Not done: delete task 'call mom'.\n" in cli("ask", "hello", "--conversation", conversation).out


def test_users_do_not_see_each_other(cli: Cli) -> None:
    ann = cli("ask", "add a task to call mom", "--user", "ann")

    assert "call mom" not in cli("ask", "show my tasks", "--user", "bob").out
    taken = cli("ask", "show my tasks", "--user", "bob", "--conversation", conversation_of(ann.err))
    assert (taken.code, taken.out) == (1, "")


def test_a_dash_reads_the_message_from_stdin(cli: Cli) -> None:
    assert "✓ Add task 'feed the cät'" in cli("ask", "-", stdin="add a task to feed the cät\n".encode()).out


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ({"error": "UNAVAILABLE"}, "ERROR:RESPONSE_GENERATION"),
        ({"error": "RATE_LIMITED"}, "REFUSAL:RATE_LIMITED"),
    ],
)
def test_a_message_that_could_not_be_served_exits_with_1_and_prints_its_decision(
    cli: Cli, script: Callable[..., str], step: dict[str, Any], outcome: str
) -> None:
    ended = cli("ask", "hello", "--json", "--model", script(step))

    assert ended.json()["decision"]["outcome_category"] == outcome
    assert ended.code == 1
    # The reply cannot say why, so the command does.
    cause, reason = ended.err.splitlines()[-2:]
    assert cause == f"the cause: {CAUSES[LLMErrorCause(step['error'])]}"
    assert reason == "the reason: graph-agent log show last"
    shown = cli(*reason.split()[3:])
    assert (shown.code, ended.json()["decision_id"] in shown.out) == (0, True)


def test_a_refusal_out_of_scope_is_an_answer(cli: Cli) -> None:
    assert cli("ask", "what's the weather?").code == 0


def test_text_of_a_model_cannot_steer_the_terminal(cli: Cli, script: Callable[..., str]) -> None:
    answer = {"content": "\x1b[2Jgone \u202eback\x07 [bold]and[/bold] :smile:", "finish_reason": "stop"}

    out = cli("ask", "hello", "--model", script(answer)).out

    assert out.endswith("gone ‹U+202E›back‹U+0007› [bold]and[/bold] :smile:\n")
    assert not set("\x1b\x07\u202e") & set(out)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ask",), "there is no message"),
        (("ask", ""), "The message is empty."),
        (("ask", "x" * 4001), "longer than 4000"),
        (("ask", "hi", "--conversation", "17"), "An id is a UUID"),
        (("ask", "hi", "--model", "gpt"), "choose embedded, embedded:FILE, gemini, openai or scripted:FILE"),
        (("ask", "hi", "--model", "scripted:"), "choose embedded, embedded:FILE, gemini, openai or scripted:FILE"),
        (("ask", "hi", "--timeout", "0"), "--timeout"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_sentence(cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    ended = cli(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err


def test_wrong_usage_is_reported_in_json_with_the_option_json(cli: Cli) -> None:
    ended = cli("ask", "", "--json")

    assert ended.json() == {"error": {"code": "VALIDATION_ERROR", "message": "The message is empty."}}
    assert ended.code == 2


def test_a_missing_key_refuses_to_start_with_one_sentence(cli: Cli) -> None:
    ended = cli("ask", "hi", "--model", "gemini")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "graph-agent: the model 'gemini' needs GEMINI_API_KEY\n"


@pytest.mark.usefixtures("deaf_endpoint")
def test_a_model_that_hangs_is_left_at_the_timeout(cli: Cli) -> None:
    ended = cli("ask", "hello", "--json", "--model", "openai", "--timeout", "1")

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


def test_an_answer_without_a_conversation_says_how_a_question_is_answered(cli: Cli) -> None:
    hint = "a new conversation has no question: answer the last one with -c"
    ended = cli("ask", "yes")
    assert hint in ended.err.splitlines()
    conversation = conversation_of(ended.err)
    assert hint not in cli("ask", "yes", "--conversation", conversation).err
    assert hint not in cli("ask", "show my tasks").err
