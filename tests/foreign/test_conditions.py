"""Conditions for the tools of other servers: all schemas load in Cedar, and what conditions cannot see is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.foreign.conftest import START_SECONDS

pytestmark = pytest.mark.foreign

SERVERS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "filesystem": ("mcp-server-filesystem", ["."], {}),
    "memory": ("mcp-server-memory", [], {}),
    "everything": ("mcp-server-everything", [], {}),
    "github": ("mcp-server-github", [], {}),
    "playwright": ("playwright-mcp", [], {}),
    # It lists its tools with any token.
    "notion": ("notion-mcp-server", [], {"NOTION_TOKEN": "ntn_none"}),
}


def test_the_conditions_that_are_drafted_for_all_servers_fit_their_tools(cli: Cli, installed: Path, tmp_path: Path) -> None:
    programs = installed / "npm" / "node_modules" / ".bin"
    listed = {
        name: {"command": str(programs / program), "args": args, "env": env, "timeout": START_SECONDS}
        for name, (program, args, env) in SERVERS.items()
    }
    servers, constitution, policy = (tmp_path / name for name in ("servers.json", "constitution.md", "policy.cedar"))
    servers.write_text(json.dumps({"mcpServers": listed}))
    files = ["--mcp", str(servers)]
    drafted = cli("constitution", "new", *files)
    assert drafted.code == 0, drafted.err
    constitution.write_text(drafted.out)
    files += ["--constitution", str(constitution)]
    rules = cli("policy", "new", *files)
    assert rules.code == 0, rules.err
    policy.write_text(rules.out)
    checked = cli("policy", "check", *files, "--conditions", str(policy))
    assert checked.code == 0, checked.err
    tools = [line for line in checked.out.splitlines() if "(server '" in line]
    assert len(tools) >= 100
    assert "  conditions cannot see 'edits' (a list of objects: Cedar has no \"any\")" in checked.out.splitlines()
