"""CPU per turn of the compiled graph beside LangChain's `create_agent`, in one interleaved run.

Both sides have a model that answers at once and a tool that runs in the process. The unit is a spin loop measured between the
turns, so that a busy machine changes nothing but the noise. The peer converts its tools for each model call, as chat models do;
the last column is the peer whose binding does nothing.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.goals import against, print_missed, settled, versions
from benchmarks.peers import create_agent
from benchmarks.spin import spin, spin_microseconds
from graph_agent.graph.build import build_graph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import walk
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, Message
from graph_agent.models.llm import FunctionCall, LLMResponse, ToolDeclaration
from graph_agent.models.prompt import Prompt
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.task_server.declarations import TASK_TOOLS

HISTORY = tuple("what is on my list?" if number % 2 == 0 else "You have two tasks." for number in range(20))
SCENARIOS: Mapping[str, tuple[int, tuple[str, ...], float]] = {
    "direct answer": (0, (), 0.85),
    "one tool": (1, (), 0.70),
    "four tool rounds": (4, (), 0.60),
    "direct answer, 20 messages": (0, HISTORY, 0.85),
    "one tool, 20 messages": (1, HISTORY, 0.68),
    "four tool rounds, 20 messages": (4, HISTORY, 0.60),
}
"""Tool rounds, messages before the turn, and the goal for the ratio to the peer."""
STARTED_AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
WARM_UP = 40
REPEATS = 200

Scenario = Callable[[], Awaitable[Any]]


class _InstantPorts:
    """`TurnPorts` onto a model that answers at once, so many rounds of one call and then text, and a tool in the process."""

    interrupted = False

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    async def generate(self, prompt: Prompt) -> LLMResponse:
        done = sum(message.role == "function" for message in prompt.request.messages)
        if done < self._rounds:
            call = FunctionCall(name="add_task", arguments={"description": f"task {done}"})
            return LLMResponse(function_calls=[call], finish_reason="tool_calls")
        return LLMResponse(content="Done.", finish_reason="stop")

    def intend(self, calls: Sequence[AuthorizedCall]) -> None:
        """Nothing is recorded here."""

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return ToolResult(success=True, data={"task": {"id": call.operation_key, **call.arguments}})


def ours(
    rounds: int,
    texts: tuple[str, ...] = (),
    *,
    constitution: Constitution | None = None,
    tools: tuple[ToolDeclaration, ...] = TASK_TOOLS,
) -> Scenario:
    """The compiled graph: nine states, the guard, the reply reader."""
    graph = build_graph()
    constitution = constitution or Constitution.load()
    snapshot = PolicySnapshot(compile_policy(constitution, tools, {}), AgentEngineConfig(), constitution.text)
    history = [Message("user" if number % 2 == 0 else "assistant", text) for number, text in enumerate(texts)]  # type: ignore[misc, arg-type]
    context = DecisionContext(user_id="ann", message="add a task to call mom", conversation_id="c", message_history=history)
    ports: Any = _InstantPorts(rounds)

    async def turn() -> Any:
        start = Turn(context=context, decision_id="d", started_at=STARTED_AT)
        return (await walk(graph, start, TurnRuntime(ports, snapshot)))[-1]

    return turn


async def cpu_in_spins(scenario: Scenario) -> float:
    """Return the CPU time of one turn in units of the spin loop around it."""
    before = spin()
    started = time.process_time()
    await scenario()
    spent = time.process_time() - started
    return spent / ((before + spin()) / 2)


async def interleaved(contenders: Mapping[str, Scenario], repeats: int = REPEATS) -> dict[str, float]:
    """Return the median CPU per turn of each contender in spins. They run in turns, and each goes first equally often."""
    for _ in range(WARM_UP):
        for scenario in contenders.values():
            await scenario()
    gc.collect()
    gc.freeze()
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(repeats):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            spent[name].append(await cpu_in_spins(contenders[name]))
    return {name: statistics.median(times) for name, times in spent.items()}


def main() -> None:
    """Print one line for each scenario."""
    warnings.simplefilter("ignore")
    print(f"CPU per turn, compiled graph beside create_agent, interleaved ({versions(('langgraph', 'langchain'))})")
    unit = spin_microseconds()
    print(f"one spin = {unit:.0f} µs here\n")
    print(f"{'':31}{'ours µs':>9}{'peer µs':>9}{'ratio':>7}{'to bare binding':>17}")
    for name, (rounds, texts, goal) in SCENARIOS.items():
        contenders = {
            "ours": ours(rounds, texts),
            "peer": create_agent.turn_of(rounds, texts, converts=True),
            "bare": create_agent.turn_of(rounds, texts, converts=False),
        }

        def measure(contenders: Mapping[str, Scenario] = contenders) -> tuple[dict[str, float], dict[str, float]]:
            spent = asyncio.run(interleaved(contenders))
            return spent, {"ratio": spent["ours"] / spent["peer"]}

        spent, ratios = settled(measure, {"ratio": goal})
        figures = f"{spent['ours'] * unit:9.0f}{spent['peer'] * unit:9.0f}{ratios['ratio']:7.2f}"
        line = f"{name:31}{figures}{spent['ours'] / spent['bare']:17.2f}"
        print(line + against(f"graph, {name}", ratios["ratio"], goal))


if __name__ == "__main__":
    main()
    print_missed()
