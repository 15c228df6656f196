"""CPU of finding where five values come from, beside results of different sizes, and its ratio to a one-tool turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping

from benchmarks.goals import against, settled
from benchmarks.turn import turn_microseconds
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.sources import NO_CALLS, ReadCall
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.sources import SourceFinder

SIZES: Mapping[str, int] = {"1 KB": 1_000, "100 KB": 100_000, "1 MB": 1_000_000}
GOALS: Mapping[str, float] = {"1 KB": 0.02, "100 KB": 0.10}
"""The goals for the ratio to a turn, with the result prepared: it is once for the turn."""
_ROUNDS = 200
_TEXT = {"type": "string"}
_CALL = FunctionCall(
    "pay",
    {"to": "Mallory Kerr", "account": "US133000000121212121212", "amount": 980.0, "subject": "open balance", "note": "thanks"},
)


def _finder() -> SourceFinder:
    properties = {name: {"type": "number"} if name == "amount" else _TEXT for name in _CALL.arguments}
    tools = [
        ToolDeclaration(name="pay", description="x", parameters={"type": "object", "properties": properties}),
        ToolDeclaration(name="read", description="x", parameters={"type": "object", "properties": {}}),
    ]
    constitution = Constitution.parse("## Available Tools\n- pay: Pay\n- read: Read (reads)\n")
    policy = compile_policy(constitution, tools, {tool.name: ToolTraits() for tool in tools})
    context = DecisionContext(
        user_id="ann", conversation_id="c", message="Please read the mail and pay what it says to Anna Schmidt"
    )
    return SourceFinder(context, policy, NO_CALLS)


def _read(size: int) -> ReadCall:
    words = random.Random(1).choices(
        ["invoice", "meeting", "tomorrow", "amount", "98.70", "please", "(see above)"], k=size // 8
    )
    return ReadCall("read", {}, ToolResult(success=True, data={"text": " ".join(words)[:size]}))


def _measure(size: int) -> tuple[float, float]:
    """Return the microseconds to prepare a result of this size with a first look-up, and those of a further look-up."""
    finder, made = _finder(), [_read(size)]
    started = time.process_time()
    finder.sources([_CALL], made)
    prepared = time.process_time() - started
    best = float("inf")
    for _ in range(_ROUNDS if size < 1_000_000 else 20):
        started = time.perf_counter()
        finder.sources([_CALL], made)
        best = min(best, time.perf_counter() - started)
    return prepared * 1e6, best * 1e6


def _ratios() -> tuple[list[str], dict[str, float]]:
    turn = asyncio.run(turn_microseconds())
    found = {name: _measure(size) for name, size in SIZES.items()}
    lines = [f"a one-tool turn on SQLite: {turn:,.0f} µs of CPU"]
    lines += [f"five values beside {name}: {best:,.0f} µs, prepared in {once:,.0f} µs" for name, (once, best) in found.items()]
    return lines, {name: best / turn for name, (_, best) in found.items()}


def main() -> None:
    print("where five values come from")
    lines, ratios = settled(_ratios, GOALS)
    for line in lines:
        print(f"  {line}")
    for name, ratio in ratios.items():
        print(f"  beside {name}: {ratio:.3f} of a turn{against(f'sources beside {name}', ratio, GOALS[name])}")


if __name__ == "__main__":
    main()
