"""The memory that a turn takes while it waits for the model, and the growth of the process over ten thousand turns.

    python -m benchmarks.memory [TURNS]

The memory of a waiting turn is what Python allocates for it. Growth is that of the resident memory in `/proc` (Linux).
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.goals import against
from benchmarks.turn import OneToolModel, context_of, full_engine
from graph_agent.models.llm import LLMResponse

WAITING = 400
GOAL_WAITING_KB = 60
TURNS = 10_000
AT_ONCE = 50
GOAL_LEFT_MB = 5
"""The allocator may keep this much. A leak of 1 KB per turn exceeds it."""


class SilentModel(OneToolModel):
    """A model that answers once `released` is set."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def generate(self, *_: Any, **__: Any) -> LLMResponse:
        self.asked.release()
        await self.released.wait()
        return LLMResponse(content="Hello.", finish_reason="stop")


def resident_kilobytes() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


async def waiting() -> float:
    """Return the kilobytes that one turn takes while it waits for the model."""
    with tempfile.TemporaryDirectory() as folder:
        model = SilentModel()
        async with full_engine(Path(folder), model) as engine:
            model.released.set()
            await asyncio.gather(*(engine.run(context_of(number)) for number in range(WAITING)))
            model.released.clear()
            model.asked = asyncio.Semaphore(0)
            tracemalloc.start()
            turns = [asyncio.create_task(engine.run(context_of(number))) for number in range(WAITING)]
            for _turn in turns:
                await model.asked.acquire()
            taken, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            model.released.set()
            await asyncio.gather(*turns)
    return taken / 1024 / WAITING


async def growth_after(turns: int) -> float:
    """Return the megabytes by which the process grows over the second half of `turns`."""
    with tempfile.TemporaryDirectory() as folder:
        async with full_engine(Path(folder)) as engine:
            sizes = []
            for _half in range(2):
                for _batch in range(turns // 2 // AT_ONCE):
                    await asyncio.gather(*(engine.run(context_of(number)) for number in range(AT_ONCE)))
                sizes.append(resident_kilobytes())
    return (sizes[1] - sizes[0]) / 1024


def main(turns: int = TURNS) -> None:
    """Print what a waiting turn takes and what finished ones leave."""
    print(f"memory of the process, {WAITING} turns waiting at once, then {turns:,} turns")
    taken = asyncio.run(waiting())
    print(f"{'a waiting turn':28}{taken:8.1f} KB" + against("a waiting turn", taken, GOAL_WAITING_KB, " KB"))
    left = asyncio.run(growth_after(turns))
    print(f"{f'growth over the last {turns // 2:,}':28}{left:8.1f} MB" + against("growth", left, GOAL_LEFT_MB, " MB"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
