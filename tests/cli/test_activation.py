"""`graph-agent rules activate`, `rollback` and `follow`: the gate, and what commands and files count afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

PERMIT = '@id("base") permit (principal, action, resource);\n'
MILK = '@id("no milk") forbid (principal, action == Action::"add_task", resource)\n'
MILK += 'when { context.arguments.description like "milk*" };\n'
PROMISE = MILK.replace("no milk", "never milk")
REFUSED = 2
ADD_MILK = ("tools", "call", "add_task", '{"description": "milk"}')


@pytest.fixture
def strict(tmp_path: Path) -> str:
    return written(tmp_path, "strict.cedar", PERMIT + MILK)


@pytest.fixture
def loose(tmp_path: Path) -> str:
    return written(tmp_path, "loose.cedar", PERMIT)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def activate(cli: Cli, *options: str) -> tuple[int, list[str]]:
    found = cli("rules", "activate", "--reason", "a test", *options)
    return found.code, found.out.splitlines()


def test_a_command_without_the_files_decides_under_the_rules_in_force(cli: Cli, strict: str) -> None:
    assert cli(*ADD_MILK).code == 0
    code, lines = activate(cli, "--conditions", strict)
    assert (code, lines[-1].partition(" (")[0]) == (0, "activated 2")
    refused = cli(*ADD_MILK)
    assert (refused.code, "no milk" in refused.err) == (REFUSED, True)
    assert "activated by" in cli("rules", "list").out.splitlines()[0]
    assert cli("log", "verify").code == 0


def test_other_files_are_a_usage_error_that_names_the_command(
    cli: Cli, strict: str, loose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate(cli, "--conditions", strict)
    found = cli(*ADD_MILK, "--conditions", loose)
    assert (found.code, "`graph-agent rules activate`" in found.err, "DATABASE_URL" in found.err) == (2, True, True)
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", loose)
    assert cli(*ADD_MILK).code == REFUSED
    assert "the files here differ in conditions" in cli("doctor").line("rules")


def test_what_is_newly_possible_needs_an_option_and_so_does_going_back_to_it(cli: Cli, strict: str, loose: str) -> None:
    activate(cli, "--conditions", loose)
    cli(*ADD_MILK)
    code, lines = activate(cli, "--conditions", strict)
    assert code == 0
    assert "of the last 100 recorded decisions 1 would be decided otherwise" in lines

    code, lines = activate(cli, "--conditions", loose)
    assert (code, lines[1].partition("(")[0]) == (1, "newly possible without a yes: add_task")
    back = cli("rules", "rollback", "--reason", "a test")
    assert (back.code, "--allow-new" in back.err) == (1, True)
    assert cli(*ADD_MILK).code == REFUSED
    assert cli("rules", "rollback", "--reason", "too strict", "--allow-new").code == 0
    assert cli(*ADD_MILK).code == 0
    listed = cli("rules", "list").out.splitlines()
    assert [line.split("  ")[1] for line in (listed[0], listed[2])] == [listed[0].split("  ")[1]] * 2
    assert "rollback by" in listed[0]
    assert "too strict" in listed[0]


def test_recorded_decisions_are_decided_without_conditions_if_the_new_rules_have_none(cli: Cli, strict: str) -> None:
    activate(cli, "--conditions", strict)
    assert cli(*ADD_MILK).code == REFUSED
    code, lines = activate(cli, "--allow-new")
    assert (code, lines[2]) == (0, "of the last 100 recorded decisions 1 would be decided otherwise")
    assert "refused -> runs" in lines[3]


def test_a_promise_in_force_must_be_kept(cli: Cli, strict: str, loose: str, tmp_path: Path) -> None:
    promises = written(tmp_path, "promises.cedar", PROMISE)
    found = cli("rules", "activate", "--reason", "a test", "--conditions", loose, "--promises", promises)
    assert (found.code, "FAILS: the promise 'never milk'" in found.err) == (1, True)
    code, lines = activate(cli, "--conditions", strict, "--promises", promises)
    assert (code, lines[1]) == (0, "promises: 1 of 1 PROVED")
    broken = cli("rules", "activate", "--reason", "a test", "--conditions", loose, "--allow-new")
    assert (broken.code, "never milk" in broken.err) == (1, True)
    # To give a promise up takes an activation of its own, while it is still kept.
    assert activate(cli, "--conditions", strict, "--promises", written(tmp_path, "none.cedar", ""))[0] == 0
    assert activate(cli, "--conditions", loose, "--allow-new")[0] == 0


def test_going_back_to_rules_without_the_promises_in_force_needs_an_option(cli: Cli, strict: str, tmp_path: Path) -> None:
    activate(cli, "--conditions", strict)
    promises = written(tmp_path, "promises.cedar", PROMISE)
    assert activate(cli, "--conditions", strict, "--promises", promises)[0] == 0
    back = cli("rules", "rollback", "--reason", "a test")
    assert (back.code, "permits more now: promises" in back.out, "--allow-new" in back.err) == (1, True, True)
    assert cli("rules", "rollback", "--reason", "a test", "--allow-new").code == 0


def test_nothing_is_activated_unless_the_expected_rules_are_in_force(cli: Cli, strict: str, loose: str) -> None:
    assert activate(cli, "--conditions", loose, "--expect", "7")[0] == 1
    assert cli("rules", "list").out.startswith("No rules")
    assert activate(cli, "--conditions", loose, "--expect", "0")[0] == 0
    digest = cli("rules", "list", "--json").json()["digest"]
    assert activate(cli, "--conditions", strict, "--expect", digest[:12])[0] == 0
    assert activate(cli, "--conditions", strict, "--expect", digest)[0] == 1
    again, lines = activate(cli, "--conditions", strict)
    assert (again, lines[-1]) == (0, "these rules are activated already")


def test_released_rules_let_each_process_use_its_files_again(cli: Cli, strict: str, loose: str) -> None:
    assert cli("rules", "follow", "--reason", "a test").code == 2
    activate(cli, "--conditions", strict)
    assert cli("rules", "follow", "--reason", "a test").code == 0
    assert cli(*ADD_MILK, "--conditions", loose).code == 0
    assert [line.split("  ")[3].split()[0] for line in cli("rules", "list").out.splitlines()[1:]] == ["released", "activated"]


def test_rules_of_a_file_that_cannot_be_used_are_not_activated(cli: Cli, tmp_path: Path) -> None:
    wrong = written(tmp_path, "wrong.cedar", PERMIT.replace("permit", "permits"))
    assert activate(cli, "--conditions", wrong)[0] == 1
    assert cli("rules", "list").out.startswith("No rules")
