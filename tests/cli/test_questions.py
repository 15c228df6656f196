"""`graph-agent questions`: one person tries the rules without sign-in, and a signed answer where keys are asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.terminal import PROGRAM, typed

RULES = """permit (principal, action, resource);

@id("additions need a manager")
forbid (principal, action == Action::"add_task", resource)
unless { context.approvals.manager >= 1 };
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "policy.cedar"
    file.write_text(RULES)
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(file))
    monkeypatch.setenv("GRAPH_AGENT_ROLES", "groups=manager,finance")
    return file


BOB = ("--user", "bob", "--role", "manager")
BOTH = "and made only if the earlier rules permit it too"
NEEDS_A_PERSON = "a question is answered by a person: in a terminal, on the page, or with --token-file FILE"


UNKNOWN = "00000000-0000-0000-0000-000000000000"


def asked(cli: Cli, text: str = "add a task to buy bread") -> str:
    answer = cli("ask", text, "--user", "ann", "--json").json()
    return str(answer["decision"]["approval"]["action"]["id"])


@pytest.mark.usefixtures("policy")
def test_one_person_can_try_the_rules(cli: Cli, launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    assert cli("questions", "list", "--user", "ann", "--role", "manager").out == ""
    listed = cli("questions", "list", *BOB).out
    assert listed.startswith(f"{request_id}  open  until ")
    assert "ann: Add task 'buy bread'" in listed

    shown = cli("questions", "show", request_id, *BOB).out
    assert 'description = "buy bread"\n' in shown
    assert 'Message: "add a task to buy bread"' in shown
    assert "Rules: additions need a manager" in shown
    assert "If you approve it, it is done at once." in shown
    assert cli("tools", "call", "list_tasks", "--user", "ann").json()["data"]["count"] == 0

    ended = cli("questions", "answer", "--yes", request_id, *BOB, *launched)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "Approved by 'bob' as manager. Done: Add task 'buy bread'."
    assert cli("tools", "call", "list_tasks", "--user", "ann").json()["data"]["count"] == 1
    assert "bob as manager (asserted)" in cli("questions", "show", request_id, *BOB).out


@pytest.mark.usefixtures("policy")
def test_a_dry_run_of_an_erasure_names_the_requests_that_wait(cli: Cli) -> None:
    request_id = asked(cli)
    tried = cli("log", "erase", "--user", "ann", "--reason", "request 7", "--dry-run")
    assert f"0 operations, with 1 open approval request ({request_id}) would be erased" in tried.out


@pytest.mark.usefixtures("policy")
def test_a_request_is_denied_with_a_reason_and_withdrawn_by_its_requester(cli: Cli, launched: tuple[str, str]) -> None:
    denied = asked(cli)
    assert cli("questions", "answer", "--no", denied, *BOB, *launched, "--reason", " ").code == 2
    ended = cli("questions", "answer", "--no", denied, *BOB, *launched, "--reason", "not now")
    assert ended.out.splitlines()[-1].startswith("Denied by 'bob' as manager, so nothing was done")
    assert cli("questions", "answer", "--yes", denied, "--user", "eve", "--role", "manager").err.count("\n") == 1

    withdrawn = asked(cli, "add a task to buy milk")
    assert cli("questions", "cancel", withdrawn, *BOB).code == 2
    assert (
        cli("questions", "cancel", withdrawn, "--user", "bob").err == cli("questions", "cancel", UNKNOWN, "--user", "bob").err
    )
    assert cli("questions", "cancel", withdrawn, "--user", "ann", *launched).out.startswith("cancelled: ")
    assert [line.split()[1] for line in cli("questions", "list", "--own", "--user", "ann").out.splitlines()] == [
        "cancelled",
        "denied",
    ]


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    "arguments",
    [
        ("answer", "ID", "--yes", "--user", "ann", "--role", "manager"),
        ("answer", "ID", "--yes", "--user", "bob", "--role", "finance"),
        ("answer", "ID", "--yes", *BOB, "--digest", "0" * 64),
        ("answer", "ID", "--yes", *BOB, "--as", "finance"),
        ("answer", "ID", "--yes", *BOB, "--key", "/nothing"),
        ("answer", UNKNOWN, "--yes", *BOB),
        ("answer", "ID", *BOB),
        ("answer", "ID", "--yes", "--no", *BOB),
        ("show", "ID", "--user", "eve"),
    ],
)
def test_what_does_not_count_is_one_sentence(cli: Cli, arguments: tuple[str, ...], launched: tuple[str, str]) -> None:
    request_id = asked(cli)
    given = () if arguments[0] == "show" else launched
    ended = cli("questions", *(request_id if one == "ID" else one for one in arguments), *given)
    assert ended.code in (1, 2)
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert cli("tools", "call", "list_tasks", "--user", "ann").json()["data"]["count"] == 0


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    "command", [("answer", "--yes", *BOB), ("answer", "--no", *BOB, "--reason", "no"), ("cancel", "--user", "ann")]
)
def test_no_command_without_a_terminal_approves_denies_or_withdraws(cli: Cli, command: tuple[str, ...]) -> None:
    request_id = asked(cli)
    for stdin in (b"", b"yes\n"):
        refused = cli("questions", command[0], request_id, *command[1:], stdin=stdin)
        assert (refused.code, refused.out) == (2, "")
        assert NEEDS_A_PERSON in refused.err
    forged = cli("questions", command[0], request_id, *command[1:], "--token-file", "/dev/null")
    assert (forged.code, "does not have the launch token" in forged.err) == (2, True)
    assert cli("questions", "list", "--own", "--user", "ann").out.split()[1] == "open"


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    ("command", "word", "line", "code", "state"),
    [
        (("answer", *BOB), "approve", "yes", 0, "approved"),
        (("answer", "--yes", *BOB), "approve", "no", 1, "open"),
        (("answer", "--yes", *BOB), "approve", "", 1, "open"),
        (("answer", "--no", *BOB, "--reason", "no"), "deny", "yes", 0, "denied"),
        (("cancel", "--user", "ann"), "withdraw", "yes", 0, "cancelled"),
        (("cancel", "--user", "ann"), "withdraw", "perhaps", 1, "open"),
    ],
)
def test_the_whole_request_is_shown_in_the_terminal_and_what_is_typed_below_it_counts(
    cli: Cli, command: tuple[str, ...], word: str, line: str, code: int, state: str
) -> None:
    request_id = asked(cli)
    ended, shown = typed([PROGRAM, "questions", command[0], request_id, *command[1:]], [line])
    assert ended == code, shown
    assert 'description = "buy bread"\n' in shown
    assert f"Should I {word} it" in shown
    assert cli("questions", "list", "--own", "--user", "ann").out.split()[1] == state


@pytest.mark.usefixtures("policy")
def test_a_command_that_answers_nothing_carries_out_no_request(
    cli: Cli, launched: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = asked(cli)
    closed = tmp_path / "closed.cedar"
    closed.write_text(RULES.replace("context.approvals.manager >= 1", "false"))
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(closed))
    answered = cli("questions", "answer", "--yes", request_id, *BOB, *launched)
    assert answered.err.startswith("Stored. It is decided by a server with the rules under which it was asked. ")
    assert "Here other ones are in force (the conditions" in cli("questions", "show", request_id, *BOB).out
    left = f"1 request open, 1 of them asked where the conditions, their roles or their time zone differ, {BOTH}: {request_id}"
    assert cli("doctor").line("approvals").endswith(left)
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(tmp_path / "policy.cedar"))
    cli("ask", "show my tasks", "--user", "eve")
    assert cli("questions", "list", "--own", "--user", "ann").out.split()[1] == "open"


@pytest.mark.usefixtures("policy")
def test_a_stop_is_resumed_without_what_waited(cli: Cli) -> None:
    asked(cli)
    cli("stop", "--server", "tasks", "--reason", "wrong tasks")
    assert cli("resume", "1", "--reason", "mended", "--void-waiting").code == 2
    cli("stop", "--tool", "add_task", "--reason", "wrong tasks")
    resumed = cli("resume", "2", "--reason", "mended", "--void-waiting").out.splitlines()
    assert resumed[0] == "ended 1 waiting request; a server tells their requesters"
    assert cli("questions", "list", "--own", "--user", "ann").out.split()[1] == "void"
    assert cli("resume", "1", "--reason", "mended").out.startswith("resumed the server 'tasks'")


@pytest.mark.usefixtures("policy")
def test_a_shell_without_the_rules_carries_out_what_they_permit_and_nothing_else(
    cli: Cli, launched: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.cedar").write_text(RULES.replace("manager >= 1", "manager >= 2"))
    request_id = asked(cli)
    monkeypatch.delenv("GRAPH_AGENT_CONDITIONS")
    assert cli("questions", "answer", "--yes", request_id, *BOB, *launched).err == ""
    assert cli("questions", "list", "--own", "--user", "ann").out.split()[1] == "open"
    ended = cli("questions", "answer", "--yes", request_id, "--user", "joe", "--role", "manager", *launched)
    assert ended.out.splitlines()[-1] == "Approved by 'bob' as manager and 'joe' as manager. Done: Add task 'buy bread'."


def ssh_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True)
    return folder / name


@pytest.mark.usefixtures("policy")
def test_aisvs_9_2_9_with_keys_only_an_answer_that_its_approver_signed_counts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob, eve = ssh_key(tmp_path, "bob"), ssh_key(tmp_path, "eve")
    keys = tmp_path / "approvers"
    public = {name: " ".join((tmp_path / f"{name}.pub").read_text().split()[:2]) for name in ("bob", "eve")}
    keys.write_text(f"# who may approve\nbob {public['bob']}\neve {public['eve']} eve@example.org\n")
    monkeypatch.setenv("GRAPH_AGENT_APPROVER_KEYS", str(keys))
    request_id = asked(cli)
    assert "it has no signature" in cli("questions", "answer", "--yes", request_id, *BOB).err
    assert "it was made with another key" in cli("questions", "answer", "--yes", request_id, *BOB, "--key", str(eve)).err
    ended = cli("questions", "answer", "--yes", request_id, *BOB, "--key", str(bob))
    assert ended.out.splitlines()[-1] == "Approved by 'bob' as manager. Done: Add task 'buy bread'."
    assert "bob as manager (key)" in cli("questions", "show", request_id, *BOB).out


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("line", ["bob ssh-rsa AAAA", "bob", "bob valid-after=20260101 ssh-ed25519 AAAA", "bob ssh-ed25519 !!"])
def test_a_line_of_the_keys_that_cannot_be_used_is_an_error_with_its_number(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    keys = tmp_path / "approvers"
    keys.write_text(f"\n{line}\n")
    monkeypatch.setenv("GRAPH_AGENT_APPROVER_KEYS", str(keys))
    ended = cli("questions", "show", "q", *BOB)
    assert ended.code != 0
    assert "line 2: " in ended.err
