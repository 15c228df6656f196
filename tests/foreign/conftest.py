"""The command line with an official MCP server and a constitution for it: turns of a scripted model, and the gateway."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from graph_agent.errors import ToolErrorCode
from graph_agent.gateway.server import DECISION_META
from tests.cli.conftest import Cli, cli, home, script, token  # noqa: F401 (fixtures)
from tests.fork_server import graph_agent

ANSWER = {"content": "That is all.", "finish_reason": "stop"}
START_SECONDS = 120
"""The time limit of a server: a busy machine may need long to start a process."""


@dataclass(frozen=True)
class Call:
    """A call that the scripted model requests."""

    tool: str
    arguments: dict[str, Any]


def call(tool: str, /, **arguments: Any) -> Call:
    return Call(tool, arguments)


@dataclass(frozen=True)
class Agent:
    """Runs turns with the command line. Each turn starts the server anew."""

    cli: Cli
    script: Callable[..., str]
    files: tuple[str, ...]
    token: tuple[str, str]
    """The option with which a command answers a question without a terminal."""

    def ask(self, message: str, *batches: list[Call], conversation: str | None = None) -> dict[str, Any]:
        """Run one turn, whose model requests one batch after the other; return what `ask --json` prints."""
        steps = [
            {"function_calls": [{"name": one.tool, "arguments": one.arguments} for one in batch], "finish_reason": "tool_calls"}
            for batch in batches
        ]
        options = () if conversation is None else ("--conversation", conversation)
        model = self.script(*steps, ANSWER)
        ended = self.cli("ask", message, "--json", *self.files, "--model", model, "--timeout", "600", *options, *self.token)
        assert ended.out, ended.err
        answer: dict[str, Any] = ended.json()
        return answer

    def invocations(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of a turn as the record has them."""
        record: dict[str, Any] = self.cli("log", "show", answer["decision_id"], "--json").json()
        found: list[dict[str, Any]] = record["invocations"]
        return found

    def reads(self, wanted: Call) -> str:
        """Run a turn with a read; return its recorded result as text."""
        answer = self.ask("read it", [wanted])
        (invocation,) = self.invocations(answer)
        assert (invocation["disposition"], invocation["success"]) == ("executed", True), invocation
        assert answer["decision"]["effects"] == []
        return json.dumps(invocation["result"], ensure_ascii=False)

    def changes(self, wanted: Call) -> str:
        """Run a turn with a change that needs no confirmation; return its recorded result as text."""
        answer = self.ask("do it", [wanted])
        (invocation,) = self.invocations(answer)
        assert (invocation["disposition"], invocation["success"]) == ("executed", True), invocation
        assert len(answer["decision"]["effects"]) == 1
        return json.dumps(invocation["result"], ensure_ascii=False)

    def refuses(self, wanted: Call, code: ToolErrorCode) -> None:
        """Run a turn whose call the guard refuses, so that the server does not see it."""
        answer = self.ask("do it", [wanted])
        (invocation,) = self.invocations(answer)
        assert (invocation["disposition"], invocation["error_code"]) == ("refused", code)
        assert answer["decision"]["effects"] == []

    def declines(self, wanted: Call) -> None:
        """Run a turn that asks the user, and the turn in which the user says no."""
        asked = self.ask("do it", [wanted])
        assert asked["decision"]["pending_action"]["tool_name"] == wanted.tool
        declined = self.ask("no", conversation=asked["conversation_id"])
        assert self.invocations(declined) == []
        assert declined["decision"]["effects"] == []

    def confirms(self, wanted: Call) -> str:
        """Run a turn that asks the user, and the turn in which the user says yes; return the recorded result as text."""
        asked = self.ask("do it", [wanted])
        assert asked["decision"]["pending_action"]["arguments"] == wanted.arguments
        done = self.ask("yes", conversation=asked["conversation_id"])
        (invocation,) = self.invocations(done)
        assert (invocation["disposition"], invocation["success"]) == ("executed", True), invocation
        assert len(done["decision"]["effects"]) == 1
        return json.dumps(invocation["result"], ensure_ascii=False)

    def fails_after(self, works: Call, fails: Call, code: ToolErrorCode = ToolErrorCode.TOOL_REPORTED_FAILURE) -> None:
        """Run a turn in which the second call fails on the server: the first one stays done, and the failure is recorded."""
        answer = self.ask("do both", [works], [fails])
        first, second = self.invocations(answer)
        assert (first["disposition"], first["success"]) == ("executed", True), first
        assert (second["success"], second["error_code"]) == (False, code), second
        (done,), (unknown,) = answer["decision"]["effects"], answer["decision"]["notices"]
        assert ("failure" in done, unknown.startswith("Reported a failure")) == (False, True)

    def replays(self) -> None:
        """Run all recorded turns again, without the server."""
        decisions = self.cli("log", "list", "--json", "--limit", "100").out.splitlines()
        ended = self.cli("replay", "--all")
        assert ended.out == f"{len(decisions)} of {len(decisions)} identical\n", ended.out + ended.err


class GatewayAgent(Agent):
    """Makes the calls through `graph-agent gateway`, as an MCP client without a model: each is a decision."""

    def ask(self, message: str, *batches: list[Call], conversation: str | None = None) -> dict[str, Any]:
        """Make one call, or answer the question of one; return what `Agent.ask` does, from the record."""
        if not batches:
            return super().ask(message, conversation=conversation)
        ((wanted,),) = batches
        record = self.cli("log", "show", asyncio.run(self._decision_of(wanted)), "--json").json()
        header, decision = record["header"], record["decision"]
        conversation_id = header["context"]["conversation_id"]
        return {"decision_id": header["decision_id"], "conversation_id": conversation_id, "decision": decision}

    def fails_after(self, works: Call, fails: Call, code: ToolErrorCode = ToolErrorCode.TOOL_REPORTED_FAILURE) -> None:
        """Make two calls, the second of which fails on the server."""
        self.changes(works)
        answer = self.ask("do it", [fails])
        (failed,) = self.invocations(answer)
        assert (failed["success"], failed["error_code"]) == (False, code), failed
        assert answer["decision"]["effects"] == []

    async def _decision_of(self, wanted: Call) -> str:
        environment = {**os.environ, "GRAPH_AGENT_TIMEOUT_SECONDS": "600"}
        program = StdioServerParameters(command=graph_agent(), args=["gateway", *self.files], env=environment)
        async with Client(program, read_timeout_seconds=600) as client:
            result = await client.call_tool(wanted.tool, wanted.arguments)
        assert result.meta is not None
        return str(result.meta[DECISION_META])


@pytest.fixture
def installed() -> Path:
    """The folder in which `make foreign` has installed the servers."""
    return Path(os.environ["FOREIGN_SERVERS"])


@pytest.fixture(params=[Agent, GatewayAgent], ids=["turns", "gateway"])
def agent(
    request: pytest.FixtureRequest,
    cli: Cli,  # noqa: F811 (a fixture)
    script: Callable[..., str],  # noqa: F811 (a fixture)
    token: tuple[str, str],  # noqa: F811 (a fixture)
    tmp_path: Path,
) -> Callable[[dict[str, Any], str], Agent]:
    """`agent(server, grants)`: an agent with one server and a constitution that has these lines."""

    def build(server: dict[str, Any], grants: str) -> Agent:
        servers, constitution = tmp_path / "servers.json", tmp_path / "constitution.md"
        servers.write_text(json.dumps({"mcpServers": {"it": {"timeout": START_SECONDS, **server}}}), encoding="utf-8")
        # Each agent is a new start: what an earlier one has pinned is not reviewed here.
        constitution.with_suffix(".lock").unlink(missing_ok=True)
        constitution.write_text(f"You use one server.\n\n## Available Tools\n{grants}\n", encoding="utf-8")
        kind: type[Agent] = request.param
        return kind(cli, script, ("--mcp", str(servers), "--constitution", str(constitution)), token)

    return build
