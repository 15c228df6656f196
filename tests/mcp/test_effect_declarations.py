"""The command line about effects at servers without a ledger."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.mcp.conftest import Servers

SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shop", log_level="ERROR")


@server.tool()
def pay(amount: int, reference: str) -> dict:
    \"\"\"Pay an amount.\"\"\"
    return {}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_payments(reference: str) -> dict:
    \"\"\"Find payments.\"\"\"
    return {"payments": []}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_by_day(reference: str, day: str) -> dict:
    \"\"\"Find the payments of a day.\"\"\"
    return {"payments": []}


server.run()
"""


@pytest.fixture
def shop(tmp_path: Path, servers: Servers) -> Path:
    (tmp_path / "shop.py").write_text(SERVER)
    return servers(shop={"command": sys.executable, "args": [str(tmp_path / "shop.py")], "start_timeout": 120})


def test_a_new_constitution_only_suggests_a_key_and_a_read(cli: Cli, shop: Path) -> None:
    drafted = cli("constitution", "new", "--mcp", str(shop)).out
    assert "<!-- if a key takes effect once at this server, add (operation key in reference) to the line above -->" in drafted
    fact = "- done: find_payments(reference = arguments.reference)"
    assert f"<!-- if find_payments finds what was done, declare the fact `{fact}` in a section ## Facts" in drafted
    assert [line for line in drafted.splitlines() if "operation key" in line or "done if" in line if line[0] != "<"] == []
    assert "find_by_day(" not in drafted


@pytest.mark.parametrize("command", [["constitution", "check"], ["doctor"], ["policy", "check"]])
def test_each_check_refuses_a_header_for_a_server_over_stdio(cli: Cli, shop: Path, tmp_path: Path, command: list[str]) -> None:
    rules, conditions = tmp_path / "c.md", tmp_path / "policy.cedar"
    rules.write_text("## Available Tools\n- pay: Pay (requires confirmation) (operation key in header Idempotency-Key)\n")
    conditions.write_text("permit (principal, action, resource);\n")
    files = ["--mcp", str(shop), "--constitution", str(rules)]
    if command != ["constitution", "check"]:
        files += ["--conditions", str(conditions)]
    ended = cli(*command, *files)
    assert ended.code != 0
    said = ended.out + ended.err
    assert "the tool 'pay' takes no header for the operation key: its server is reached over stdio" in said


def test_the_check_names_the_place_of_the_key(cli: Cli, shop: Path, tmp_path: Path) -> None:
    rules = tmp_path / "c.md"
    rules.write_text("## Available Tools\n- pay: Pay (requires confirmation) (operation key in _meta com.example/key)\n")
    said = cli("constitution", "check", "--mcp", str(shop), "--constitution", str(rules)).out
    assert "changes something exactly once, as its server promises for the operation key in _meta com.example/key" in said
