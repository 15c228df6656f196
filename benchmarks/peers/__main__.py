"""`python -m benchmarks.peers`: CPU per turn and bytes stored, beside other frameworks, each in one interleaved run.

`make bench` runs it in an environment of its own, since some of the frameworks need other versions of what this project uses.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from types import ModuleType

from benchmarks.graph import HISTORY, interleaved
from benchmarks.peers import adk, agent_framework, burr, create_agent, openai_agents, ours, pydantic_ai
from benchmarks.peers.turns import Conversation

PEERS: Mapping[str, ModuleType] = {
    "create_agent": create_agent,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "google-adk": adk,
    "agent-framework": agent_framework,
    "burr": burr,
}
SCENARIOS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "direct": (0, ()),
    "one tool": (1, ()),
    "four rounds": (4, ()),
    "one tool, 20 messages": (1, HISTORY),
}
"""Tool rounds, and messages before the turn."""
REPEATS = 60
STORES: Mapping[str, Callable[[str, AsyncExitStack], Conversation]] = {
    "graph-agent": ours.conversation,
    "create_agent, async": partial(create_agent.conversation, durability="async"),
    "create_agent, exit": partial(create_agent.conversation, durability="exit"),
    **{name: peer.conversation for name, peer in PEERS.items() if peer is not create_agent},
}
TURNS = (1, 20, 100)
"""The turns of one conversation whose stored bytes are printed."""


async def _ratios(peer: ModuleType) -> list[float]:
    """Return our CPU per turn as a ratio to the peer's, for each scenario."""
    ratios = []
    for rounds, texts in SCENARIOS.values():
        spent = await interleaved({"ours": ours.turn_of(rounds, texts), "peer": peer.turn_of(rounds, texts)}, REPEATS)
        ratios.append(spent["ours"] / spent["peer"])
    return ratios


async def _stored(conversation: Callable[[str, AsyncExitStack], Conversation]) -> list[float]:
    """Return the KiB that the 1st, 20th and 100th turn of one conversation stored, each as the median around it."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            turn = conversation(folder, stack)
            stored = [await turn() for _ in range(TURNS[-1] + 1)]
    # Pages of a database fill up unevenly.
    return [stored[0] / 1024, *(statistics.mean(stored[count - 3 : count + 1]) / 1024 for count in TURNS[1:])]


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    logging.disable()
    print("CPU per turn of the compiled graph as a ratio to the framework's, interleaved; nothing is stored\n")
    print(f"| {'framework':25} | {' | '.join(SCENARIOS)} |\n|{'---|' * (len(SCENARIOS) + 1)}")
    for name, peer in PEERS.items():
        cells = [f"{ratio:.2f}".center(len(title)) for ratio, title in zip(asyncio.run(_ratios(peer)), SCENARIOS, strict=True)]
        print(f"| {f'{name} {version(peer.PACKAGE)}':25} | {' | '.join(cells)} |")
    print("\nKiB that one turn with one tool call adds to what is stored, in one conversation\n")
    print(f"| {'framework':25} | {' | '.join(f'turn {count}' for count in TURNS)} |\n|{'---|' * (len(TURNS) + 1)}")
    for name, conversation in STORES.items():
        cells = [f"{size:7.1f}" for size in asyncio.run(_stored(conversation))]
        print(f"| {name:25} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
