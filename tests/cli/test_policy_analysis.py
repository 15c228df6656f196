"""`graph-agent policy explain`, `diff` and `prove`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli

PERMIT = '@id("base") permit (principal, action, resource);\n'
MILK = '@id("no milk") forbid (principal, action == Action::"add_task", resource)\n'
MILK += 'when { context.arguments.description like "milk*" };\n'
NEW = 'newly possible without a yes: add_task(description="milk")  guard: refused -> runs\n'


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_explain_prints_what_each_tool_may_do(cli: Cli, tmp_path: Path) -> None:
    policy = written(tmp_path, "policy.cedar", PERMIT + MILK)
    lines = cli("policy", "explain", "--conditions", policy).out.splitlines()
    assert lines[0].startswith("add_task       without a yes: sometimes  with a yes: sometimes  add_task(description=")
    assert lines[1] == '               not add_task(description="milk")  guard: refused'
    assert lines[2].startswith("list_tasks     without a yes: always     with a yes: always")
    assert lines[-1].startswith("delete_task    without a yes: never      with a yes: always")
    printed = [json.loads(line) for line in cli("policy", "explain", "--json").out.splitlines()]
    assert [(one["name"], one["answer"]) for one in printed][:2] == [("add_task", "always"), ("list_tasks", "always")]
    assert printed[0]["example"]["confirmed"] is True


def test_diff_prints_what_is_newly_possible_and_what_recorded_decisions_become(cli: Cli, tmp_path: Path) -> None:
    old, new = written(tmp_path, "old.cedar", PERMIT + MILK), written(tmp_path, "new.cedar", PERMIT)
    cli("ask", "add a task to milk the cow", "--conditions", old)
    cli("ask", "show my tasks", "--conditions", old)
    found = cli("policy", "diff", old, new, "--last", "9")
    first, *decided = found.out.splitlines(keepends=True)
    assert (found.code, first) == (0, NEW)
    (changed,) = decided
    assert changed.partition(": ")[2] == "add_task: refused -> runs\n"
    assert cli("policy", "diff", old, new, "--no-new").code == 1
    assert cli("policy", "diff", new, old, "--no-new").code == 0
    assert cli("policy", "diff", old, old, "--no-new").out == "No call is decided otherwise.\n"
    markdown = cli("policy", "diff", old, new, "--markdown").out.splitlines()
    assert markdown[0] == "| Change | Tool or condition | Example | Guard |"
    assert markdown[2] == '| newly possible without a yes | `add_task` | `add_task(description="milk")` | refused -> runs |'
    assert json.loads(cli("policy", "diff", old, new, "--json").out)["answer"] == "newly possible without a yes"


def test_folders_are_compared_with_their_constitutions(cli: Cli, tmp_path: Path) -> None:
    text = cli("constitution", "show").out
    for folder, constitution in (("old", text), ("new", text.replace("(requires confirmation)", "(without confirmation)", 1))):
        written(tmp_path, f"{folder}/constitution.md", constitution)
        written(tmp_path, f"{folder}/policy.cedar", PERMIT)
    found = cli("policy", "diff", str(tmp_path / "old"), str(tmp_path / "new"), "--no-new")
    assert found.code == 1
    assert found.out.startswith("newly possible without a yes: delete_task(task_id=")
    alone = cli("policy", "diff", str(tmp_path / "old" / "constitution.md"), str(tmp_path / "new" / "constitution.md"))
    assert alone.out == found.out


def test_prove_has_three_answers_and_exit_codes(cli: Cli, tmp_path: Path) -> None:
    policy = written(tmp_path, "policy.cedar", PERMIT + MILK)
    promise = (
        'forbid (principal, action == Action::"add_task", resource) when { context.arguments.description like "milk%s*" };'
    )
    holds = written(tmp_path, "holds.cedar", f'@id("no milkshake") {promise % "shake"}')
    fails = written(tmp_path, "fails.cedar", f'@id("no tea") {(promise % "").replace("milk", "tea")}')
    unknown = written(
        tmp_path, "unknown.cedar", '@id("odd") forbid (principal, action, resource) when { context.domain == context.length };'
    )
    proved = cli("policy", "prove", holds, "--conditions", policy)
    assert (proved.code, proved.out) == (0, "PROVED  no milkshake\n")
    failed = cli("policy", "prove", fails, "--conditions", policy)
    assert (failed.code, failed.out) == (1, 'FAILS   no tea  add_task(description="tea")\n')
    assert cli("policy", "prove", unknown, "--conditions", policy).code in (1, 2)
    answers = json.loads(cli("policy", "prove", fails, "--conditions", policy, "--json").out)
    assert (answers["answer"], answers["example"]["arguments"]) == ("fails", {"description": "tea"})
