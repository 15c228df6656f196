"""The limit for the rounds of a turn, which a deployment sets in one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Cli

Script = Callable[..., str]


@pytest.mark.parametrize(("limit", "rounds"), [(None, 5), ("1", 1), ("7", 7)])
def test_a_turn_has_as_many_rounds_as_the_deployment_sets_and_is_replayed_with_them(
    limit: str | None, rounds: int, cli: Cli, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit is not None:
        monkeypatch.setenv("GRAPH_AGENT_MAX_ITERATIONS", limit)
    adds = [{"name": "add_task", "arguments": {"description": f"task {number}"}} for number in range(8)]
    model = script(*({"function_calls": [add], "finish_reason": "tool_calls"} for add in adds))
    ended = cli("ask", "add many", "--json", "--model", model).json()
    assert ended["states"].count("EXECUTE_TOOLS") == rounds
    assert ended["reply"].startswith("That request is too complex.")
    monkeypatch.delenv("GRAPH_AGENT_MAX_ITERATIONS", raising=False)
    # The record has the limit under which the turn ran.
    replayed = cli("replay", ended["decision_id"])
    assert replayed.code == 0, replayed.out
    shown = cli("log", "show", "last").out
    assert f"after {rounds} tool rounds the model still had not answered" in shown or rounds == 1
