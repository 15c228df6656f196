"""CPU of a turn as its inputs grow: history, tools, constitution and log; each as a ratio to the smallest.

    python -m benchmarks.growth [DECISIONS ...]

The sizes of the log are 0, 10,000, 100,000 and 1,000,000 decisions unless others are given. Its rows are written before the
turns are run: 10,000 real ones, and copies of them without the texts of their records, which a turn never reads.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path

from benchmarks.goals import against
from benchmarks.graph import Scenario, interleaved, ours
from benchmarks.turn import context_of, full_engine
from graph_agent.db import Database, migrate
from graph_agent.models.llm import ToolDeclaration
from graph_agent.policy.constitution import Constitution
from graph_agent.record.tables import decision_logs, tool_invocation_logs
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.record.generated_log import fill

GOAL = 1.15
"""A cost that is flat, with room for noise."""
LOG_SIZES = (0, 10_000, 100_000, 1_000_000)
COPIED = 10_000
TURNS = 60


def histories() -> dict[str, Scenario]:
    """Return turns with more and more messages before them."""
    return {f"{count} messages": ours(1, ("what is on my list?",) * count) for count in (0, 10, 20)}


def toolboxes() -> dict[str, Scenario]:
    """Return turns with more and more tools."""
    text = Constitution.load().text
    sizes = {}
    for count in (5, 50, 200):
        more = [f"other_tool_{number}" for number in range(count - len(TASK_TOOLS))]
        lines = "\n".join(f"- {name}: Does something else (reads)" for name in more)
        listed = text.replace("(requires confirmation)\n", f"(requires confirmation)\n{lines}\n", 1)
        declared = tuple(
            ToolDeclaration(name=name, description="Does something else", parameters=TASK_TOOLS[0].parameters) for name in more
        )
        constitution = Constitution.parse(listed)
        sizes[f"{count} tools"] = ours(1, constitution=constitution, tools=(*TASK_TOOLS, *declared))
    return sizes


def constitutions() -> dict[str, Scenario]:
    """Return turns with longer and longer constitutions."""
    text = Constitution.load().text
    rule = "\nA rule that says in many words what the assistant should keep in mind when it talks to people.\n"
    sizes = {}
    for kilobytes in (3, 20, 80):
        longer = text + rule * max(0, (kilobytes * 1024 - len(text)) // len(rule))
        sizes[f"{len(longer) // 1024} KB"] = ours(1, constitution=Constitution.parse(longer))
    return sizes


def print_table(title: str, spent: Mapping[str, float]) -> None:
    """Print one line for each size, with its ratio to the first."""
    first = next(iter(spent.values()))
    print(f"\n{title}")
    for number, (name, spins) in enumerate(spent.items()):
        ratio = spins / first
        print(f"  {name:20}{spins:7.2f} spins{ratio:7.2f}" + (against(f"{title}, {name}", ratio, GOAL) if number else ""))


def make_log(path: Path, size: int) -> None:
    """Write a log of about `size` decisions."""
    log = Database.open(f"sqlite:///{path}")
    migrate(log, "graph_agent.record")
    fill(log, min(size, COPIED))
    log.close_now()
    with closing(sqlite3.connect(path)) as file:
        # A cache as large as the file, because the indexes are written in another order than the rows.
        for pragma in ("synchronous=OFF", "cache_size=-4000000"):
            file.execute(f"PRAGMA {pragma}").close()
        for copy in range(1, size // COPIED):
            for table in (decision_logs, tool_invocation_logs):
                changed = {"decision_id": f"'{copy}:' || decision_id", "record": "NULL", "header": "NULL"}
                names = [column.name for column in table.columns]
                values = ", ".join(changed.get(name, name) for name in names)
                # An id without a prefix is that of an original.
                originals = f"SELECT {values} FROM {table.name} WHERE decision_id NOT LIKE '%:%'"
                file.execute(f"INSERT INTO {table.name} ({', '.join(names)}) {originals}")
            file.commit()


async def logs(sizes: tuple[int, ...]) -> dict[str, float]:
    """Return the CPU of a whole turn, in spins, beside logs of so many decisions."""
    with tempfile.TemporaryDirectory() as name:
        async with AsyncExitStack() as stack:
            contenders = {}
            for size in sizes:
                folder = Path(name) / str(size)
                folder.mkdir()
                # In a thread, because it runs an event loop.
                await asyncio.to_thread(make_log, folder / "log.db", size)
                engine = await stack.enter_async_context(full_engine(folder))
                contenders[f"{size:,} decisions"] = lambda engine=engine: engine.run(context_of(0))
            return await interleaved(contenders, TURNS)


def main(*sizes: int) -> None:
    """Print one table for each kind of growth."""
    warnings.simplefilter("ignore")
    print("CPU of a one-tool turn as its inputs grow, and the ratio to the smallest")
    for title, contenders in {"history": histories(), "tools": toolboxes(), "constitution": constitutions()}.items():
        print_table(title, asyncio.run(interleaved(contenders, TURNS)))
    print_table("log (whole turn with MCP, ledger and record)", asyncio.run(logs(sizes or LOG_SIZES)))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
