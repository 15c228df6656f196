"""What one command writes for a list of tools, every other command accepts, whatever the list is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Cli, Ended
from tests.examples import examples

SERVER = Path(__file__).with_name("listed_tools_server.py")
Schema = dict[str, Any]

PAGING = ["per_page", "page", "pageToken", "cursor", "limit", "fields", "field_names"]
NAMES = [
    *("to", "amount", "body", "id", "order_id", "customerId", "url", "date", "status", "name", "idempotency_key"),
    *("user_id", "in", "if", "like", "has", "true", "context", "__cedar", "_x", "", " ", "a b", "a.b", "$top", "filter[name]"),
    *('"', "'", "\\", "`", "größe", "数", "a\nb", "<b>", "{a}", "(reads)", "//", "x" * 200, "__proto__", "@id"),
    *PAGING,
]
TEXTS = [
    *(
        "",
        "Find an order.",
        "Find {order} (reads)",
        "(requires confirmation)",
        "Say \"hi\" to 'x'",
        "a\nb\r\nc",
        "# Title\n\n- item",
    ),
    *(
        "<!-- note -->",
        "-->",
        "```\n## Available Tools\n- x: y\n```",
        "\x1b[31mred",
        "‮evil",
        "größe 数 🙂",
        "{",
        "%s {0}",
        "x" * 3_000,
    ),
]
TOOL_NAMES = st.one_of(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_./-]{64}", fullmatch=True),
    st.sampled_from(
        ["get", "a.b.c", "repos/list", "x" * 128, "x" * 200, "1st: tool", "all writes", "in", "CON", "über", "a b", "-"]
    ),
)
FLAT = st.sampled_from(
    [
        *({"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {}, True),
        *({"type": ["string", "null"]}, {"type": "string", "nullable": True}, {"type": "integer", "minimum": 1}),
        *({"enum": ["a", 'b"', "c\n", 1, None]}, {"const": "a"}, {"type": "string", "format": "date-time"}),
        *({"type": "string", "pattern": "^[a-z]+$"}, {"$ref": "#/$defs/node"}, {"$ref": "#/$defs/missing"}, {"not": {}}),
        *({"type": "STRING"}, {"type": "array"}, {"type": "object"}, {"additionalProperties": {"type": "string"}}),
    ]
)  # fmt: skip
NODE: Schema = {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}, "id": {"type": "string"}}}


COMBINED = st.sampled_from(["oneOf", "anyOf", "allOf"])


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)
    return st.builds(
        lambda found, needed, closed: {
            "type": "object",
            "properties": found,
            "required": [name for name in found if needed],
            **({"additionalProperties": False} if closed else {}),
        },
        properties,
        st.booleans(),
        st.booleans(),
    )


VALUES = st.recursive(
    st.builds(lambda one, text: {**one, "description": text} if isinstance(one, dict) else one, FLAT, st.sampled_from(TEXTS)),
    lambda inner: st.one_of(
        objects(inner),
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda word, parts: {word: parts}, COMBINED, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)  # fmt: skip


class Wide(NamedTuple):
    """A schema with many arguments, which would be too long to print."""

    arguments: int
    description: int

    def schema(self) -> Schema:
        value = {"type": "string", "description": "x" * self.description}
        return {"type": "object", "properties": {f"target_{number}": value for number in range(self.arguments)}}


def as_schema(schema: Schema | Wide) -> Schema:
    return schema.schema() if isinstance(schema, Wide) else schema


RECURSIVE: Schema = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
INPUTS = st.one_of(
    objects(VALUES).map(lambda schema: {**schema, "$defs": {"node": NODE}}),
    st.sampled_from([{"type": "object"}, {}, Wide(18, 10), Wide(60, 800), Wide(400, 10), RECURSIVE]),
)  # fmt: skip
HINTS = st.fixed_dictionaries(
    {}, optional={name: st.booleans() for name in ("readOnlyHint", "destructiveHint", "openWorldHint")}
)
SAID = {name: st.sampled_from(TEXTS) for name in ("description", "title")}
TOOLS: st.SearchStrategy[Schema] = st.fixed_dictionaries(
    {"name": TOOL_NAMES, "inputSchema": INPUTS}, optional={**SAID, "annotations": HINTS, "outputSchema": objects(FLAT)}
)
LISTS = st.lists(TOOLS, min_size=1, max_size=6, unique_by=lambda tool: str(tool["name"]))


@pytest.fixture
def run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command that must accept what the ones before it have written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPH_AGENT_ROLES", "groups=support")

    def accepted(*arguments: str, code: int = 0, stdin: bytes = b"") -> Ended:
        ended = cli(*arguments, stdin=stdin)
        assert ended.code == code, f"{' '.join(arguments)}: {ended.out}{ended.err}"
        return ended

    return accepted


def serve(lists: dict[str, list[Any]], trusted: bool) -> None:
    servers = {}
    for name, tools in lists.items():
        written = [{**tool, "inputSchema": as_schema(tool["inputSchema"])} for tool in tools]
        Path(f"{name}.json").write_text(json.dumps(written), encoding="utf-8")
        servers[name] = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), f"{name}.json"], "trusted": trusted}
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def uncommented(policy: str) -> str:
    """Return the file with its examples and facts in force."""
    return re.sub(r"^// (?=@|forbid|unless|when)", "", policy, flags=re.MULTILINE)


def goes_through(run: Any, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    files = {"MCP": "servers.json", "CONSTITUTION": "constitution.md", "CONDITIONS": "policy.cedar"}
    for name in files:
        monkeypatch.delenv(f"GRAPH_AGENT_{name}", raising=False)
    Path("constitution.lock").unlink(missing_ok=True)
    drafted = run("constitution", "new", "--mcp", "servers.json")
    Path("constitution.md").write_text(drafted.out, encoding="utf-8")
    for name in ("MCP", "CONSTITUTION"):
        monkeypatch.setenv(f"GRAPH_AGENT_{name}", files[name])
    run("constitution", "check")
    policy = run("policy", "new").out
    Path("policy.cedar").write_text(uncommented(policy), encoding="utf-8")
    run("policy", "check", "--conditions", "policy.cedar")
    Path("policy.cedar").write_text(policy, encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", "policy.cedar")
    run("policy", "check")
    run("policy", "schema")
    run("policy", "diff", "policy.cedar", "policy.cedar", "--no-new")
    run("policy", "explain", "--seconds", "0.2")
    Path("suggested.cedar").write_text(run("policy", "suggest").out, encoding="utf-8")
    run("policy", "check", "--conditions", "suggested.cedar")
    run("tools", "pin")
    run("tools", "diff")
    listed = [line.split()[1] for line in run("tools", "list").out.splitlines() if line[:1] in "!+ "]
    assert listed
    step = {"function_calls": [{"name": tool, "arguments": {}}], "finish_reason": "tool_calls"}
    script = [step, {"content": "done", "finish_reason": "stop"}]
    Path("script.jsonl").write_text("\n".join(map(json.dumps, script)), encoding="utf-8")
    run("ask", "do it", "--model", "scripted:script.jsonl")
    run("doctor", "--model", "scripted:script.jsonl")


def test_a_tool_that_is_called_like_a_group_of_tools_is_left_out_of_a_new_constitution(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [{"name": name, "inputSchema": {"type": "object"}} for name in ("all writes", "server shop", "usable")]
    serve({"shop": named}, trusted=True)
    goes_through(run, monkeypatch, "usable")
    assert "all writes" not in Path("constitution.md").read_text(encoding="utf-8")


def test_a_new_constitution_says_amounts_and_names_those_that_may_be_money(run: Any) -> None:
    decimal = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]}
    amounts = {"amount": decimal, "price": {"type": "string", "format": "decimal"}, "weight": {"type": ["number", "string"]}}
    schema = {"type": "object", "properties": {**amounts, "count": {"type": "integer"}}, "required": [*amounts, "count"]}
    Path("shop.json").write_text(json.dumps([{"name": "charge", "inputSchema": schema}]), encoding="utf-8")
    servers = {"shop": {"command": sys.executable, "args": ["-I", "-S", str(SERVER), "shop.json"], "trusted": True}}
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    drafted = run("constitution", "new", "--mcp", "servers.json").out
    line = '- charge: "charge: amount {amount}, price {price}, weight {weight}, count {count}" (requires confirmation)'
    assert line in drafted.splitlines()
    named = [name for name in schema["properties"] if f"<!-- if {name} is an amount of money, write" in drafted]
    assert named == ["amount", "price"]
    Path("constitution.md").write_text(drafted.replace("{amount},", "{amount as EUR},"), encoding="utf-8")
    checked = run("constitution", "check", "--mcp", "servers.json", "--constitution", "constitution.md").out
    assert "charge is said as, for example: charge: amount €60.00, price 'price', weight 60, count 1\n" in checked


@pytest.mark.slow
@settings(
    max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tools=LISTS, trusted=st.booleans(), other=st.none() | LISTS)
def test_every_command_accepts_what_the_others_wrote_for_any_list(
    run: Any, monkeypatch: pytest.MonkeyPatch, tools: list[Any], trusted: bool, other: list[Any] | None
) -> None:
    usable = {"name": "usable", "inputSchema": {"type": "object"}}
    serve({"shop": [*tools, usable]} | ({} if other is None else {"other": other}), trusted)
    goes_through(run, monkeypatch, "usable" if other is None else "shop.usable")
