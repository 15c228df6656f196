"""Everything that is written for a list of tools, through everything that is checked: each step is a command of a user."""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import graph_agent as graph_agent_package
from graph_agent.cli.main import main as graph_agent

STEP_SECONDS = 240
MAX_CALLS = 3
"""The number of tools that the scripted model calls."""
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH")
_HINTED = re.compile(r"^<!-- the server '[^']*' says that these only read; .*?: ([^:]*) -->$", re.MULTILINE)
_GRANTED = re.compile(r"^- .*\((?:requires confirmation|reads)\)", re.MULTILINE)
_EVERY_CHANGE = """@id("a change needs a yes")
forbid (principal, action in Action::"all writes", resource)
unless { context.confirmed };
"""


class StepError(Exception):
    """A step has not ended as it must. The text names it and says how."""


class Ended(NamedTuple):
    """The result of a command."""

    code: int | None
    out: str
    err: str


@dataclass
class Found:
    """The figures of one server."""

    tools: int = 0
    left_out: int = 0
    reads: int = 0
    """The tools of which the server says that they only read."""
    asks: int = 0
    """The tools that never run without a yes, after the hints were believed and with the first policy."""
    conditions: int = 0
    unseen: int = 0
    """The arguments of which conditions cannot see everything."""
    failures: list[str] = field(default_factory=list)


class Chain:
    """The folder of a user with one file of servers."""

    def __init__(self, folder: Path, servers: dict[str, Any]) -> None:
        """Each command runs in a fork of this process, so it must have no other threads."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.use(servers)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._environment = {**kept, "HOME": str(folder), "GRAPH_AGENT_HOME": str(folder / "home"), "NO_COLOR": "1"}
        self.found = Found()

    def use(self, servers: dict[str, Any]) -> None:
        """Write another file of servers."""
        (self._folder / "servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    def pin(self) -> list[dict[str, Any]]:
        """Run `tools pin`, and return the tools as the server has described them. Raises `StepError`."""
        self._run("tools", "pin", "--mcp", "servers.json", "--constitution", "constitution.md")
        pinned = json.loads((self._folder / "constitution.lock").read_text(encoding="utf-8"))["servers"]
        return [{"name": name, **tool} for server in pinned.values() for name, tool in server.items()]

    def write_constitution(self) -> None:
        """Run `constitution new`. Raises `StepError` if the server does not start, or none of its tools can be granted."""
        made = self._run("constitution", "new", "--mcp", "servers.json")
        (self._folder / "constitution.md").write_text(made.out, encoding="utf-8")
        self.found.left_out = made.err.count(" is left out: ")
        self.found.tools = len(_GRANTED.findall(made.out))

    def check(self) -> None:
        """Run the other commands. What fails is in `found.failures`; later steps run nevertheless."""
        written = (self._folder / "constitution.md").read_text(encoding="utf-8")
        names = [name for listed in _HINTED.findall(written) for name in listed.split(", ")]
        self.found.reads = len(names)
        believed = "\n".join(_believed(line, frozenset(names)) for line in written.splitlines())
        (self._folder / "believed.md").write_text(believed + "\n", encoding="utf-8")
        (self._folder / "promises.cedar").write_text(_EVERY_CHANGE, encoding="utf-8")
        as_written = ("--mcp", "servers.json", "--constitution", "constitution.md")
        files = ("--mcp", "servers.json", "--constitution", "believed.md")
        with_policy = (*files, "--conditions", "policy.cedar")
        self._step("constitution check", *as_written)
        self._step("policy prove", "promises.cedar", *as_written)
        self._step("tools pin", *files)
        self._step("tools diff", *files)
        self._step("constitution check", *files)
        self._step("policy new", *files, to="policy.cedar")
        checked = self._step("policy check", *with_policy)
        self.found.unseen = checked.count("\n  conditions cannot see ")
        self.found.conditions = int(next(iter(re.findall(r": (\d+) conditions?, SHA", checked)), 0))
        self._step("policy schema", *files)
        explained = [json.loads(line) for line in self._step("policy explain", *with_policy, "--json").splitlines()]
        tools = [one for one in explained if "answer" in one]
        self.found.asks = sum(one["answer"] == "never" for one in tools)
        if unsure := sum(not one["certain"] for one in tools):
            self.found.failures.append(f"policy explain: not certain about {unsure} tools")
        self._step("policy diff", "--no-new", "believed.md", "believed.md", *with_policy)
        # Without their question the reads are newly possible, and the comparison must say so.
        self._step("policy diff", "--no-new", "constitution.md", "believed.md", *files, codes=(1,) if names else (0,))
        self._turn(tools, with_policy)
        self._gateway(with_policy)

    def _turn(self, tools: Sequence[dict[str, Any]], files: Sequence[str]) -> None:
        """Let a scripted model call each of some tools, and replay and verify what was recorded."""
        calls = [one["example"] for one in tools if one.get("example")][:MAX_CALLS]
        ended = _requests("answer", {"text": "ok", "reports_change": False})
        for number, call in enumerate(calls):
            script = (_requests(call["tool"], call["arguments"]), ended)
            lines = "".join(f"{json.dumps(line)}\n" for line in script)
            (self._folder / f"script{number}.jsonl").write_text(lines, encoding="utf-8")
        if calls:
            self._step("doctor", *files, "--model", "scripted:script0.jsonl")
        for number in range(len(calls)):
            # The played server answers with a text, which is an unknown outcome for a tool that declares its output.
            model = f"scripted:script{number}.jsonl"
            self._step("ask", "do it", *files, "--model", model, "--json", codes=(0, 1))
        self._step("replay", "--all")
        self._step("log verify")
        self._step("policy suggest", "--shadow", "--users", "2", *files[:4], to="suggested.cedar")
        self._step("policy check", *files[:4], "--conditions", "suggested.cedar")

    def _gateway(self, files: Sequence[str]) -> None:
        """Let a client list the tools of the gateway, and call one."""
        try:
            listed = asyncio.run(asyncio.wait_for(self._listed(files), STEP_SECONDS))
        except Exception as exc:  # every failure of a step is counted
            self.found.failures.append(f"gateway: {type(exc).__name__}")
            return
        if listed != self.found.tools:
            self.found.failures.append(f"gateway: it lists {listed} of {self.found.tools} tools")

    async def _listed(self, files: Sequence[str]) -> int:
        program = str(Path(sys.executable).with_name("graph-agent"))
        process = StdioServerParameters(command=program, args=["gateway", *files], env=self._environment, cwd=self._folder)
        with (self._folder / "gateway.err").open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(process, errlog=errors)) as client:
                tools = (await client.list_tools()).tools
                await client.call_tool(tools[0].name, {})
                return len(tools)

    def _step(self, command: str, *arguments: str, codes: Sequence[int] = (0,), to: str | None = None) -> str:
        try:
            out = self._run(*command.split(), *arguments, codes=codes).out
        except StepError as exc:
            self.found.failures.append(f"{command}: {exc}")
            out = ""
        if to is not None:
            (self._folder / to).write_text(out, encoding="utf-8")
        return out

    def _run(self, *arguments: str, codes: Sequence[int] = (0,)) -> Ended:
        run = (arguments, self._folder, self._environment)
        process = multiprocessing.get_context("fork").Process(target=_command, args=run)
        process.start()
        process.join(STEP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            raise StepError(f"no end after {STEP_SECONDS} s")
        out, err = ((self._folder / f"step.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
        ended = Ended(process.exitcode, out, err)
        with (self._folder / "steps.log").open("a", encoding="utf-8") as log:
            log.write(f"\n$ graph-agent {' '.join(arguments)}  # {ended.code}\n{out[-4000:]}\n{err[-4000:]}\n")
        if ended.code not in codes:
            said = (err.strip() or out.strip()).splitlines()
            raise StepError(f"exit code {ended.code}: {said[-1] if said else 'nothing'}")
        return ended


def import_commands() -> None:
    """Import what the commands need, so that their forks need not."""
    for module in pkgutil.walk_packages(graph_agent_package.__path__, "graph_agent."):
        if not module.name.startswith(("graph_agent.integrations", "graph_agent.__main__")) and "migrations" not in module.name:
            importlib.import_module(module.name)
    for name in ("alembic.command", "z3", "cedarpy", "mcp.client.streamable_http"):
        importlib.import_module(name)


def _command(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Become the command `graph-agent`."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, place in ((0, os.devnull), (1, "step.out"), (2, "step.err")):
        opened = os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))
    sys.argv = ["graph-agent", *arguments]
    graph_agent()


def _requests(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the model that calls a function."""
    return {"function_calls": [{"name": name, "arguments": arguments}], "finish_reason": "tool_calls"}


def _believed(line: str, names: frozenset[str]) -> str:
    """Return a line of the constitution with `(reads)` if its tool is one of these."""
    found = re.match(r'- "?([^":]+)"?: ', line)
    return line.replace("(requires confirmation)", "(reads)") if found is not None and found[1] in names else line
