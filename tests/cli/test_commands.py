"""`step`, `diagram`, `demo` and `chat`."""

from __future__ import annotations

from pathlib import Path

from graph_agent.graph.diagram import state_machine, tool_turn
from graph_agent.graph.topology import TOPOLOGY
from graph_agent.policy.constitution import shipped_constitution
from tests.cli.conftest import Cli


def test_step_prints_every_state_its_outcome_and_what_changed(cli: Cli) -> None:
    ended = cli("step", "add a task to call mom")

    lines = ended.out.splitlines()
    states = [line.split() for line in lines if line.split()[:1] and line.split()[0] in TOPOLOGY]
    assert [(state, outcome) for state, _, outcome in states] == [
        ("BUILD_REQUEST", "request_built"),
        ("INVOKE_LLM", "responded"),
        ("CHECK_RESPONSE", "tool_calls"),
        ("EXECUTE_TOOLS", "executed"),
        ("APPEND_RESULTS", "appended"),
        ("CHECK_ITERATIONS", "below_cap"),
        ("INVOKE_LLM", "responded"),
        ("CHECK_RESPONSE", "answered"),
        ("BUILD_DECISION", "decided"),
    ]
    assert any(line.split()[:1] == ["calls"] and "add_task" in line and "executed, ok" in line for line in lines)
    assert lines[-1] == "  ✓ Add task 'call mom'"
    assert max(map(len, lines)) < 280
    assert ended.code == 0


def test_step_goes_on_with_a_conversation(cli: Cli, token: tuple[str, str]) -> None:
    cli("ask", "add a task to call mom")
    asked = cli("step", "delete the call mom task")
    conversation = asked.err.split("conversation: ")[1].strip()
    assert "pending" in asked.out

    assert "✓ Delete task 'call mom'" in cli("step", "yes", "--conversation", conversation, *token).out


def test_diagram_prints_what_is_drawn_from_the_topology(cli: Cli) -> None:
    assert cli("diagram").out == state_machine()
    assert cli("diagram", "--sequence").out == tool_turn()


def test_the_demo_shows_every_kind_of_decision_and_one_record(cli: Cli) -> None:
    ended = cli("demo")

    assert ended.code == 0
    for text in (
        "✓ Add task 'call mom'",
        "✓ Complete task 'call mom'",
        "ASK_CLARIFICATION",
        "REFUSAL:OUT_OF_SCOPE",
        "REQUEST_CONFIRMATION",
        "EXECUTE_PENDING",
        "model call 3",
        "tool call 2",
    ):
        assert text in ended.out
    assert "call mom" not in cli("ask", "show my tasks").out


def test_a_chat_is_one_conversation_until_quit(cli: Cli, token: tuple[str, str]) -> None:
    said = [
        "/help",
        "add a task to call mom",
        "",
        "delete the call mom task",
        "yes",
        "/tasks",
        "x" * 4001,
        "/quit",
        "add a cat",
    ]

    ended = cli("chat", *token, stdin="\n".join(said).encode())

    printed = ended.out
    assert (
        printed.index("/tasks")
        < printed.index("✓ Add task 'call mom'")
        < printed.index("yes or no")
        < printed.index("✓ Delete task 'call mom'")
    )
    assert "longer than 4000" in printed
    assert "cat" not in printed
    assert ended.err.splitlines()[-1].startswith("conversation: ")
    assert ended.code == 0


def test_a_chat_ends_with_its_input(cli: Cli) -> None:
    assert cli("chat", stdin=b"").code == 0


def test_new_leaves_the_question_of_the_old_conversation_behind(cli: Cli, token: tuple[str, str]) -> None:
    said = ["add a task to call mom", "delete the call mom task", "/new", "yes", "/tasks"]

    assert "[ ] call mom" in cli("chat", *token, stdin="\n".join(said).encode()).out


def test_a_yes_in_a_chat_answers_only_a_question_that_the_chat_has_shown(cli: Cli, token: tuple[str, str]) -> None:
    added = cli("ask", "add a task to call mom", "--json").json()
    conversation = ("--conversation", added["conversation_id"])
    cli("ask", "delete the call mom task", *conversation)

    printed = cli("chat", *conversation, *token, stdin=b"yes\nyes").out

    assert printed.index("Your answer may belong to another question") < printed.index("✓ Delete task 'call mom'")


def test_constitution_show_prints_the_one_in_force(cli: Cli, tmp_path: Path) -> None:
    assert cli("constitution", "show").out == shipped_constitution().read_text(encoding="utf-8")
    own = tmp_path / "own.md"
    own.write_text("You help.\n\n## Available Tools\n- add_task: Write a task\n", encoding="utf-8")

    assert cli("constitution", "show", "--constitution", str(own)).out == own.read_text(encoding="utf-8")
    assert cli("constitution", "show", "--constitution", str(tmp_path / "missing.md")).code != 0
