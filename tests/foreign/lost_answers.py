"""Calls of ten servers of others whose answers are lost: `python -m tests.foreign.lost_answers [--calls 1000] [SERVER ...]`.

None of the servers keeps a ledger. The constitution names a read for files, which tells what was written; of all others each
lost answer has to be reported as unknown, and stays so. Nothing is sent twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import StdioServerParameters
from sqlalchemy import select

from graph_agent.bootstrap.stores import open_stores
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock, RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import LLMResponse
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.policy.signature import Signer
from graph_agent.record.tables import call_operations
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from graph_agent.testing import says
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.sent_calls import SentCalls
from tests.foreign.__main__ import INSTALLED, ROOT
from tests.scripted_turns import SECRET, asks, calls, grouped
from tests.settling import settle_all

NOT_KNOWN = "Not known whether this was done"
TIMEOUT = 1.5
SETTLED_AFTER = 3600
BACK_OFF_ENDED = 60


class ToolsClock(SystemClock):
    """A clock whose time is set on between the calls: a server that was cut often is connected to again without a back-off."""

    skipped = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped


def nothing(_: Path) -> None:
    """Most servers need no preparation."""


def repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", "-C", str(folder), *author, "commit", "-q", "--allow-empty", "-m", "first"], check=True)


def notes(folder: Path) -> None:
    with sqlite3.connect(folder / "notes.db") as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()


@dataclass(frozen=True)
class ForeignServer:
    """One server, the tool that changes something there, and the arguments of its calls."""

    program: str
    options: Callable[[Path], list[str]]
    tool: str
    arguments: Callable[[Path, int], dict[str, Any]]
    prepare: Callable[[Path], None] = nothing
    marker: str = ""
    reader: str = ""
    environment: Callable[[Path], dict[str, str]] | None = None

    def lines(self) -> list[str]:
        """Return the lines of the constitution."""
        reader = [f"- it.{self.reader}: Read (reads)"] if self.reader else []
        return [f"- it.{self.tool}: Change something (without confirmation){self.marker}", *reader]


def prepare(foreign: ForeignServer, files: Path, log: Path) -> None:
    files.mkdir()
    foreign.prepare(files)
    log.touch()


def npm(name: str) -> str:
    return f"npm/node_modules/.bin/mcp-server-{name}"


FACT = "- written: it.read_text_file(path = arguments.path)"
FOREIGN = {
    "filesystem": ForeignServer(
        npm("filesystem"),
        lambda folder: [str(folder)],
        "write_file",
        lambda folder, n: {"path": str(folder / f"{n}.txt"), "content": "tea"},
        marker=" (done if written $.content)",
        reader="read_text_file",
    ),
    "memory": ForeignServer(
        npm("memory"),
        lambda _: [],
        "create_entities",
        lambda _, n: {"entities": [{"name": f"n{n}", "entityType": "person", "observations": []}]},
        environment=lambda folder: {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
    ),
    "everything": ForeignServer(npm("everything"), lambda _: [], "get-sum", lambda _, n: {"a": n, "b": 1}),
    "sequential-thinking": ForeignServer(
        npm("sequential-thinking"),
        lambda _: [],
        "sequentialthinking",
        lambda _, n: {"thought": f"tea {n}", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
    ),
    "time": ForeignServer(
        "py/bin/mcp-server-time",
        lambda _: ["--local-timezone", "UTC"],
        "convert_time",
        lambda _, n: {
            "source_timezone": "UTC",
            "time": f"{n // 60 % 24:02}:{n % 60:02}",
            "target_timezone": "Asia/Tokyo",
        },
    ),
    "git": ForeignServer(
        "py/bin/mcp-server-git",
        lambda folder: ["--repository", str(folder)],
        "git_create_branch",
        lambda folder, n: {"repo_path": str(folder), "branch_name": f"b{n}"},
        prepare=repository,
    ),
    "excel": ForeignServer(
        "py/bin/excel-mcp-server",
        lambda _: ["stdio"],
        "create_workbook",
        lambda folder, n: {"path": str(folder / f"{n}.xlsx")},
    ),
    "sqlite": ForeignServer(
        "py-old/bin/mcp-server-sqlite",
        lambda folder: ["--db-path", str(folder / "notes.db")],
        "write_query",
        lambda _, n: {"query": f"INSERT INTO notes VALUES ('{n}')"},
        prepare=notes,
    ),
    "calculator": ForeignServer(
        "py-old/bin/mcp-server-calculator", lambda _: [], "calculate", lambda _, n: {"expression": f"{n} + 1"}
    ),
    "duckdb": ForeignServer(
        "py-old/bin/mcp-server-duckdb",
        lambda folder: ["--db-path", str(folder / "notes.duckdb")],
        "query",
        lambda _, n: {"query": f"CREATE TABLE t{n} (text VARCHAR)"},
    ),
}


async def connected(tools: McpServerGroup, clock: ToolsClock) -> None:
    """Wait until the server answers again, so that the next call reaches it."""
    while not await tools.executors["it"].ready():
        clock.skipped += BACK_OFF_ENDED


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of many calls of one server."""

    server: str
    calls: int
    arrived: int
    doubled: int
    unreported: int
    """The calls whose outcome was unknown, and whose reply does not say so; or the other way round."""
    unknown_at_first: int
    unknown: int

    @property
    def is_as_promised(self) -> bool:
        """True if nothing is sent twice, and what is not known is reported. Only a read settles anything."""
        settled = self.unknown_at_first - self.unknown
        # Not those that were cut before them, and those whose server was cut again while they were delayed.
        reported = not (self.doubled or self.unreported) and self.arrived >= self.calls // 2
        return reported and (settled >= 0 if FOREIGN[self.server].marker else settled == 0)

    def __str__(self) -> str:
        return (
            f"{self.server}: {self.calls} calls, {self.arrived} arrived: {self.doubled} doubled, "
            f"{self.unreported} not reported, {self.unknown_at_first} unknown after the turn, {self.unknown} at the end"
        )


async def call_often(name: str, count: int, folder: Path, installed: Path = INSTALLED) -> Outcomes:
    """Make `count` calls of one server, each in a turn, and settle what can be settled."""
    foreign, files, log = FOREIGN[name], folder / "files", folder / "calls.log"
    await asyncio.to_thread(prepare, foreign, files, log)
    program = [str(installed / foreign.program), *foreign.options(files)]
    command = ["-m", "tests.foreign.lossy_stdio", str(log), name, foreign.tool, *program]
    more = {} if foreign.environment is None else foreign.environment(files)
    parameters = StdioServerParameters(command=sys.executable, args=command, env={**os.environ, **more}, cwd=ROOT)
    config = ServerConfig("it", parameters, prefixed=True, timeout=TIMEOUT, start_timeout=120)
    constitution = "\n".join(["# Server", "", "## Available Tools", *foreign.lines(), "", "## Facts", FACT, ""])
    granted = [line.split(":")[0].removeprefix("- ") for line in foreign.lines()]
    tools = McpServerGroup([config], granted=granted, clock=(clock := ToolsClock()))
    async with open_stores(Settings(GRAPH_AGENT_HOME=folder / "home")) as stores:
        try:
            return await _call_often(name, count, files, log, constitution, tools, stores.database, clock)
        finally:
            await tools.aclose()


async def _call_often(
    name: str,
    count: int,
    files: Path,
    log: Path,
    constitution: str,
    tools: McpServerGroup,
    database: Database,
    of_tools: ToolsClock,
) -> Outcomes:
    foreign, audit = FOREIGN[name], DatabaseAuditWriter(database, clock=SystemClock())

    def engine(*script: LLMResponse) -> LLMAgentEngine:
        ports = {"audit": audit, "clock": SystemClock(), "ids": RandomIds(), "signer": Signer(SECRET)}
        config = AgentEngineConfig(timeout_seconds=120)
        return LLMAgentEngine(ScriptedAdapter(script), tools, constitution, **grouped(**ports, config=config))

    unknown_at_first = unreported = 0
    for n in range(1, count + 1):
        await connected(tools, of_tools)
        wanted = calls((f"it.{foreign.tool}", foreign.arguments(files, n)))
        finished = await engine(wanted, says("See above.")).run(asks(f"call {n}"))
        is_unknown = any(one.error_code in UNKNOWN_CODES for one in finished.record.invocations)
        unknown_at_first += is_unknown
        unreported += (NOT_KNOWN in str(finished.decision)) != is_unknown
    clock = ManualClock(SystemClock().now())
    clock.advance(seconds=SETTLED_AFTER)
    await connected(tools, of_tools)
    await settle_all(OutcomeSettler(tools, database, clock=clock, sent_calls=SentCalls(engine())))
    query = select(call_operations.c.state)
    states = [str(state) for state in await database.read(lambda connection: connection.execute(query).scalars().all())]
    arrived = Counter((await asyncio.to_thread(log.read_text, encoding="utf-8")).splitlines())
    doubled = sum(times > 1 for times in arrived.values())
    unknown = states.count("unknown")
    return Outcomes(name, count, arrived.total(), doubled, unreported, unknown_at_first, unknown)


def main() -> int:
    """Print the outcomes of each server; return 1 if one is not as promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", metavar="SERVER", choices=[*FOREIGN, []])
    parser.add_argument("--calls", type=int, default=1000)
    given, found = parser.parse_args(), []
    for name in given.servers or FOREIGN:
        with TemporaryDirectory() as folder:
            found.append(asyncio.run(call_often(name, given.calls, Path(folder))))
        print(found[-1], flush=True)
    return 0 if all(one.is_as_promised for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
