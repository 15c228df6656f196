"""`graph-agent log`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Cli
from tests.fact_lines import write_rules


def test_the_latest_decisions_come_first_and_can_be_filtered(cli: Cli) -> None:
    first = cli("ask", "add a task to call mom", "--json", "--user", "ann").json()
    second = cli("ask", "what's the weather?", "--json", "--user", "bob").json()

    listed = [json.loads(line) for line in cli("log", "list", "--json").out.splitlines()]
    assert [row["decision_id"] for row in listed] == [second["decision_id"], first["decision_id"]]
    assert listed[0]["outcome_category"] == "REFUSAL:OUT_OF_SCOPE"
    assert listed[0]["message"] == "what's the weather?"

    (only,) = cli("log", "list", "--user", "ann").out.splitlines()
    assert first["decision_id"] in only
    (only,) = cli("log", "list", "--conversation", second["conversation_id"]).out.splitlines()
    assert second["decision_id"] in only
    assert cli("log", "list", "--limit", "1").out.count("\n") == 1


def test_show_prints_everything_about_one_decision(cli: Cli) -> None:
    answer = cli("ask", "add a task to call mom", "--json").json()

    shown = cli("log", "show", answer["decision_id"]).out

    for part in (
        answer["decision_id"],
        answer["conversation_id"],
        "add a task to call mom",
        "INVOKE_TOOL, SUCCESS:TASK_COMPLETED",
        "intent        CREATE_TASK\n",
        "BUILD_REQUEST → INVOKE_LLM",
        'asks for add_task {"description": "call mom"}',
        "tool call 1   add_task",
        "executed, ok",
        "message       user    add a task to call mom\n",
        "reply         model   Added 'call mom' to your list.\n",
        "receipt       code    Add task 'call mom'\n",
    ):
        assert part in shown
    record = cli("log", "show", answer["decision_id"], "--json").json()
    # A record leaves out the field if it is empty.
    assert {**record["decision"], "notices": []} == answer["decision"]
    assert record["states"] == answer["states"]


def test_show_without_an_id_prints_the_newest_decision(cli: Cli) -> None:
    empty = cli("log", "show")
    assert (empty.code, empty.out, empty.err) == (1, "", "graph-agent: The log has no decision yet.\n")
    cli("ask", "add a task to call mom")
    newest = cli("ask", "show my tasks", "--json").json()["decision_id"]

    assert cli("log", "show", "--json").json() == cli("log", "show", newest, "--json").json()
    assert "1 tool round\n" in cli("log", "show").out


def test_show_prints_refused_calls_and_the_reasons(cli: Cli, script: Callable[..., str]) -> None:
    steps = [
        {"function_calls": [{"name": "drop_database", "arguments": {}}], "finish_reason": "tool_calls"},
        {"content": "I cannot do that.", "finish_reason": "stop"},
    ]
    answer = cli("ask", "hello", "--json", "--model", script(*steps)).json()

    shown = cli("log", "show", answer["decision_id"]).out

    assert "drop_database {}: refused at: listed, TOOL_NOT_FOUND" in shown
    assert "there is no such tool" in shown


def test_a_decision_that_does_not_exist_ends_with_1(cli: Cli) -> None:
    ended = cli("log", "show", "00000000-0000-0000-0000-000000000000")

    assert (ended.code, ended.out, ended.err) == (1, "", "graph-agent: There is no such decision.\n")


def test_turns_with_refused_calls_are_marked_and_can_be_selected(cli: Cli, script: Callable[..., str]) -> None:
    steps = [
        {
            "function_calls": [
                {"name": "add_task", "arguments": {"description": "call mom"}},
                {"name": "drop_database", "arguments": {}},
            ],
            "finish_reason": "tool_calls",
        },
        {"content": "Added.", "finish_reason": "stop"},
    ]
    refused = cli("ask", "add a task", "--json", "--model", script(*steps)).json()
    cli("ask", "show my tasks")

    first, second = cli("log", "list").out.splitlines()
    assert second.endswith("add a task  1 call refused")
    assert "refused" not in first
    for option in (["--refused"], ["--search", "add mom"], ["--search", "ADD", "--user", "local", "--since", "1h"]):
        assert cli("log", "list", *option).out.splitlines() == [second]
    assert cli("log", "list", "--search", "nothing").out == ""
    (only,) = cli("log", "list", "--refused", "--json").out.splitlines()
    row = json.loads(only)
    assert (row["decision_id"], row["outcome_category"], row["refused_calls"]) == (
        refused["decision_id"],
        "SUCCESS:TASK_COMPLETED",
        1,
    )


def test_show_prints_the_reads_that_conditions_needed(cli: Cli, tmp_path: Path) -> None:
    policy = write_rules(
        tmp_path,
        """- known: list_tasks() $.tasks[*].description
        @id("base") permit (principal, action, resource);
        @id("nothing twice") forbid (principal, action == Action::"add_task", resource)
        when { context.result has known && context.result.known.contains(context.arguments.description) };""",
    )
    cli("ask", "add a task to call mom", *policy)
    refused = cli("ask", "add a task to call mom", *policy, "--json").json()
    assert refused["decision"]["notices"] == ["""Not done: add task 'call mom'. Nothing twice (known = ["call mom"])."""]
    shown = cli("log", "show", refused["decision_id"]).out
    assert "read before   list_tasks {}, " in shown
    assert """known = ["call mom"]""" in shown
    assert "The runtime read list_tasks {} before a call: known = [" in shown
    replayed = cli("replay", refused["decision_id"], *policy)
    assert replayed.code == 0, replayed.out
