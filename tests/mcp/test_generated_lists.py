"""What is written for tools of every shape is accepted by what is checked; `make corpus` does it with public servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graph_agent.policy.constitution import Constitution
from tests.cli.conftest import Cli
from tests.mcp.conftest import ROOT, Servers
from tests.mcp.test_cases import Script
from tests.mcp.tool_shapes import COUNT, PAGE, SHAPES, generated_tools

PROMISE = '@id("a yes")\nforbid (principal, action in Action::"all writes", resource)\nunless { context.confirmed };\n'


@pytest.fixture
def played(tmp_path: Path, servers: Servers) -> Any:
    """Return a function that writes a file of servers for a number of generated tools."""

    def write(count: int) -> Path:
        tools = tmp_path / "tools.json"
        tools.write_text(json.dumps(generated_tools(count)), encoding="utf-8")
        server = ROOT / "benchmarks" / "corpus" / "played_server.py"
        return servers(many={"python": str(server), "args": [str(tools), str(PAGE)], "timeout": 60})

    return write


def test_a_constitution_for_a_hundred_tools_in_pages_names_and_pins_all_of_them(cli: Cli, played: Any, tmp_path: Path) -> None:
    mcp, file = ("--mcp", str(played(COUNT))), tmp_path / "drafted.md"
    drafted = cli("constitution", "new", *mcp)
    file.write_text(drafted.out, encoding="utf-8")
    assert (len(Constitution.parse(drafted.out).grants), " is left out: " in drafted.err) == (COUNT, False)
    both = (*mcp, "--constitution", str(file))
    assert cli("constitution", "check", *both).code == 0
    assert cli("tools", "pin", *both).out.startswith(f"pinned {COUNT} tools")
    assert cli("tools", "diff", *both).code == 0


@pytest.mark.slow
def test_the_first_policy_for_tools_of_every_shape_is_checked_explained_and_proved(
    cli: Cli, played: Any, tmp_path: Path, script: Script
) -> None:
    mcp, file, policy, promises = ("--mcp", str(played(SHAPES))), tmp_path / "a.md", tmp_path / "a.cedar", tmp_path / "p.cedar"
    file.write_text(cli("constitution", "new", *mcp).out, encoding="utf-8")
    both = (*mcp, "--constitution", str(file))
    assert cli("tools", "pin", *both).code == 0
    policy.write_text(cli("policy", "new", *both).out, encoding="utf-8")
    promises.write_text(PROMISE, encoding="utf-8")
    with_policy = (*both, "--conditions", str(policy))
    for command in (
        ["policy", "check"],
        ["policy", "prove", str(promises)],
        ["policy", "diff", "--no-new", str(file), str(file)],
    ):
        ended = cli(*command, *with_policy)
        assert ended.code == 0, ended
    explained = [json.loads(line) for line in cli("policy", "explain", *with_policy, "--json").out.splitlines()]
    tools = [one for one in explained if "answer" in one]
    # The guard has confirmed the example of each, so each is a call that its schema accepts.
    assert [one["name"] for one in tools if not one["certain"]] == []
    assert len(tools) == SHAPES
    for one in tools[:3]:
        call = {"function_calls": [{"name": one["name"], "arguments": one["example"]["arguments"]}]}
        asked = cli("ask", "go", *with_policy, "--model", script({**call, "finish_reason": "tool_calls"}), "--json")
        assert asked.json()["decision"]["decision_type"] == "REQUEST_CONFIRMATION"
    assert cli("replay", "--all").code == 0
