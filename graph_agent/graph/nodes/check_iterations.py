"""CHECK_ITERATIONS: counts the finished round and ends the loop at the limit."""

from __future__ import annotations

from graph_agent.graph.state import Turn, TurnRuntime


async def check_iterations(turn: Turn, runtime: TurnRuntime) -> Turn:
    iterations = turn.iterations + 1
    return turn.to("below_cap" if iterations < runtime.snapshot.config.max_iterations else "cap_reached", iterations=iterations)
