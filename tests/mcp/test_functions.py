"""Python functions in the file of servers, through the commands, the API and the gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.gateway.server import Gateway
from graph_agent.settings import read_settings
from tests import fork_server
from tests.cli.conftest import Cli
from tests.mcp.conftest import call

INVENTORY = '''
from graph_agent import ToolRefusal

print("a text on stdout")
stock = {"bolt": 10}


def in_stock() -> dict[str, int]:
    """List what is in stock. (reads)

    By item.
    """
    print("another one")
    return stock


def order(item: str, count: int, user_id: str) -> str:
    """Order an item."""
    if count > stock[item]:
        raise ToolRefusal(f"Only {stock[item]} of {item} are in stock.")
    stock[item] -= count
    return f"{count} of {item} for {user_id}"


def _helper(text):
    pass
'''

SHOP = '''
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, func, insert, select

from graph_agent import ToolResult

tables = MetaData()
orders = Table("orders", tables, Column("user_id", String(50)), Column("item", String(50)), Column("count", Integer))


def ordered(connection: Connection, user_id: str) -> int:
    """Count what was ordered. (reads)"""
    return connection.scalar(select(func.coalesce(func.sum(orders.c.count), 0)).where(orders.c.user_id == user_id))


def price(item: str) -> int:
    """Say the price of an item. (reads)"""
    return len(item)


def order(item: str, count: int, user_id: str, connection: Connection):
    """Order an item."""
    connection.execute(insert(orders).values(user_id=user_id, item=item, count=count))
    if count > 10:
        return ToolResult(success=False, error="That is too much.")
'''

Files = Callable[[str], tuple[str, str, str, str]]


pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 (the commands need it)
    """The commands run in an empty folder, and start processes quickly."""
    monkeypatch.chdir(tmp_path)
    # The server of the functions starts faster as a fork.
    monkeypatch.setattr(sys, "executable", fork_server.python())


@pytest.fixture
def files(tmp_path: Path, cli: Cli, folder: None) -> Files:  # noqa: ARG001 (the commands run in it)
    """`files(text)` writes a file of functions and a constitution for it, and returns the options that name them."""

    def write(text: str) -> tuple[str, str, str, str]:
        (tmp_path / "inventory.py").write_text(text, encoding="utf-8")
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"stock": {"functions": "inventory.py"}}}))
        drafted = cli("constitution", "new", "--mcp", "servers.json")
        assert drafted.code == 0, drafted.err
        (tmp_path / "constitution.md").write_text(drafted.out, encoding="utf-8")
        return "--mcp", "servers.json", "--constitution", "constitution.md"

    return write


def test_a_sentence_says_an_amount_that_is_a_number_or_a_text(files: Files) -> None:
    files('''from decimal import Decimal

def charge_fee(loan: int, amount: Decimal, why: str | None = None) -> None:
    """Charge a fee."""
''')
    drafted = Path("constitution.md").read_text(encoding="utf-8")
    assert '- charge_fee: "Charge a fee: loan {loan}, amount {amount}" (requires confirmation)' in drafted.splitlines()


def test_a_constitution_for_functions_has_their_docstrings_and_their_marks(files: Files, cli: Cli) -> None:
    options = files(INVENTORY)
    text = Path("constitution.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith(("- in_stock", "- order", "- _"))] == [
        '- in_stock: "List what is in stock" (reads)',
        '- order: "Order an item: item {item}, count {count}" (requires confirmation)',
    ]
    listed = [json.loads(line) for line in cli("tools", "list", *options, "--json").out.splitlines()]
    assert [(one["name"], one["description"], one["read_only"]) for one in listed] == [
        ("in_stock", "List what is in stock.\n\nBy item.", True),
        ("order", "Order an item.", False),
    ]
    assert list(listed[1]["parameters"]["properties"]) == ["item", "count"]


def test_a_question_of_a_function_is_answered_and_a_refusal_is_quoted(
    files: Files, cli: Cli, script: Callable[..., str], token: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the model, which would explain the refusal in its own words.
    monkeypatch.setenv("GRAPH_AGENT_AFTER_YES", "end")
    options = files(INVENTORY)
    model = script(call("in_stock"), call("order", item="bolt", count=20))
    asked = cli("ask", "20 bolts", *options, "--model", model)
    assert "Order an item: item 'bolt', count 20. Should I go ahead?" in asked.out
    pending = json.loads(cli("ask", "20 bolts", *options, "--model", model, "--json").out)["decision"]["pending_action"]["id"]
    refused = cli("questions", "answer", "--yes", pending, *token, *options, "--model", model)
    assert "That was refused, so nothing was changed.\n\nThe tool says:\n> Only 10 of bolt are in stock." in refused.out
    done = cli("tools", "call", "order", '{"item": "bolt", "count": 2}', "--yes", *token, *options)
    assert json.loads(done.out)["data"] == {"result": "2 of bolt for local"}
    assert cli("replay", "--all", *options).code == 0


def test_functions_with_a_connection_have_a_ledger(files: Files, cli: Cli, token: tuple[str, str], tmp_path: Path) -> None:
    options = files(SHOP)
    checked = cli("constitution", "check", *options).out
    assert "order (server 'stock') changes something exactly once: its server keeps a ledger" in checked
    assert "price (server 'stock') only reads" in checked
    assert cli("tools", "call", "order", '{"item": "bolt", "count": 2}', "--yes", *token, *options).code == 0
    too_much = json.loads(cli("tools", "call", "order", '{"item": "bolt", "count": 11}', "--yes", *token, *options).out)
    assert (too_much["error"], too_much["error_code"]) == ("That is too much.", "TOOL_REFUSED")
    assert json.loads(cli("tools", "call", "ordered", *options).out)["data"] == {"result": 2}
    assert json.loads(cli("tools", "call", "price", '{"item": "bolt"}', *options).out)["data"] == {"result": 4}
    assert (tmp_path / "inventory.db").exists()


def test_the_gateway_serves_functions(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    _, servers, _, constitution = files(INVENTORY)
    monkeypatch.setenv("GRAPH_AGENT_MCP", servers)
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", constitution)

    async def serve() -> tuple[list[str], Any]:
        async with open_runtime(read_settings(), model="embedded") as runtime:
            gateway = Gateway(runtime.engine, runtime.chat, user_id="ann", page="http://127.0.0.1:8000", announce=print)
            async with gateway.maintained(), Client(gateway.server, mode="auto") as client:
                listed = await client.list_tools()
                called = await client.call_tool("in_stock", {})
                return [tool.name for tool in listed.tools], called.structured_content

    names, result = asyncio.run(serve())
    assert names == ["in_stock", "order", "question_status"]
    assert "bolt" in json.dumps(result)


BAD = {
    "def f(x): 'Do.'": "the parameter 'x' of f needs an annotation and a name",
    "def f(x: int): return 1": "f needs a docstring: it tells the model what the tool does",
    "import no_such_module": "inventory.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    "def (": "inventory.py cannot be imported: SyntaxError",
    "exit(3)": "inventory.py cannot be imported: SystemExit: 3",
    "x = 1": "it defines no function whose name begins with a letter",
    "def f(): 'Do. (without confirmation)'": "says (without confirmation), which only the constitution can say",
    "def f(): 'Do. (reads) (requires confirmation)'": "says both (reads) and (requires confirmation)",
    "def f(x: type(print)): 'Do.'": "a parameter of f has a type that JSON does not have",
    "from __future__ import annotations\ndef f(x: Foo): 'Do.'": "name 'Foo' is not defined",
    "from __future__ import annotations\ndef f(ok: int, x: Foo): 'Do.'": "the annotation of 'x' of f cannot be read",
    "import functools\ndef _f(x: int, y: int): 'Do.'\nf = functools.partial(_f, y=1)": "f is a functools.partial",
    "def _d(g):\n def w(*a): return g(*a)\n return w\n@_d\ndef f(x: int): 'Do.'": "f is the function w of a decorator",
    "from sqlalchemy import Connection\ndef f(c: Connection, _id: str): 'Do.'": "Parameter _id of f cannot start with '_'",
    "from sqlalchemy import Connection\nasync def f(c: Connection): 'Do.'": "f must not be async",
    "from sqlalchemy import Connection\ndef f(c: Connection, x): 'Do.'": "a parameter of f needs an annotation",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_of_functions_gets_one_sentence(
    text: str,
    cli: Cli,
) -> None:
    Path("inventory.py").write_text(text, encoding="utf-8")
    Path("servers.json").write_text(json.dumps({"mcpServers": {"stock": {"functions": "inventory.py"}}}))
    ended = cli("constitution", "new", "--mcp", "servers.json")
    assert ended.code != 0
    assert BAD[text] in ended.err
    assert [line for line in ended.err.splitlines() if not line.startswith("starting ")] == [ended.err.splitlines()[-1]]


def test_nothing_starts_with_functions_that_cannot_be_served(
    cli: Cli,
) -> None:
    Path("servers.json").write_text(json.dumps({"mcpServers": {"stock": {"functions": "inventory.py"}}}))
    Path("constitution.md").write_text("## Available Tools\n- order: Order\n")
    ended = cli("ask", "hi", "--mcp", "servers.json", "--constitution", "constitution.md", "--model", "embedded")
    assert ended.code != 0
    assert "these functions cannot be served: 'stock'" in ended.err
    assert "there is no file inventory.py" in ended.err


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"args": ["x"]}, "args are for a command; functions read the environment, see env"),
        ({"url": "http://127.0.0.1/mcp"}, "needs either a command, a python script, a file of functions or a url"),
        ({"functions": None, "command": "x", "database": "sqlite://"}, "database is for functions"),
    ],
)
def test_keys_that_do_not_fit_functions_are_refused(cli: Cli, keys: dict[str, Any], sentence: str) -> None:
    entry = {"functions": "inventory.py", **keys}
    Path("servers.json").write_text(json.dumps({"mcpServers": {"stock": entry}}))
    assert sentence in cli("constitution", "new", "--mcp", "servers.json").err
