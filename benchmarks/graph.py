"""CPU per turn of the compiled graph beside LangChain's `create_agent`, in one interleaved run.

Both sides have a model that answers at once and a tool that runs in the process. The unit is a spin loop measured between the
turns, so that a busy machine changes nothing but the noise.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.spin import spin, spin_microseconds
from graph_agent.graph.build import build_graph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import walk
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMRequest, LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.policy.rules import compile_policy
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.task_server.declarations import TASK_TOOLS

ROUNDS = {"direct answer": 0, "one tool": 1, "four tool rounds": 4}
LIMITS = {"direct answer": 1.3, "one tool": 1.1, "four tool rounds": 1.0}
WARM_UP = 40
REPEATS = 200

Scenario = Callable[[], Awaitable[Any]]


class _InstantPorts:
    """`TurnPorts` onto a model that answers at once, so many rounds of one call and then text, and a tool in the process."""

    interrupted = False

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    async def open(self) -> None:
        """Nothing is recorded here."""

    async def generate(self, request: LLMRequest) -> LLMResponse:
        done = sum(message.role == "function" for message in request.messages)
        if done < self._rounds:
            call = FunctionCall(name="add_task", arguments={"description": f"task {done}"})
            return LLMResponse(function_calls=[call], finish_reason="tool_calls")
        return LLMResponse(content="Done.", finish_reason="stop")

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return ToolResult(success=True, data={"task": {"id": call.operation_key, **call.arguments}})


def ours(rounds: int) -> Scenario:
    """The compiled graph: nine states, the guard, the reply reader."""
    graph = build_graph()
    config = AgentEngineConfig()
    constitution = Constitution.load()
    snapshot = PolicySnapshot(compile_policy(constitution, TASK_TOOLS, {}), config, constitution.text)
    context = DecisionContext(user_id="ann", message="add a task to call mom", conversation_id="c")
    ports: Any = _InstantPorts(rounds)

    async def turn() -> Any:
        async for taken in walk(graph, Turn(context=context, decision_id="d"), TurnRuntime(ports, snapshot)):
            last = taken
        return last

    return turn


def create_agent(rounds: int) -> Scenario:
    """LangChain's prebuilt agent with the same prompt and the same five tools, on a chat model that answers at once.

    The model binds its tools the way chat models do: converted to the provider's form for each call.
    """
    from langchain.agents import create_agent as build
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    class Instant(BaseChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self.bind(tools=[convert_to_openai_tool(each) for each in tools])

        @property
        def _llm_type(self) -> str:
            return "instant"

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            done = sum(isinstance(message, ToolMessage) for message in messages)
            calls = [{"name": "add_task", "args": {"description": f"task {done}"}, "id": str(done)}] if done < rounds else []
            message = AIMessage(content="" if calls else "Done.", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            return self._generate(messages)

    async def act(**arguments: Any) -> str:
        return str(arguments)

    tools = [
        StructuredTool.from_function(coroutine=act, name=each.name, description=each.description, args_schema=each.parameters)
        for each in TASK_TOOLS
    ]
    agent = build(Instant(), tools, system_prompt=Constitution.load().text)

    async def turn() -> Any:
        return await agent.ainvoke({"messages": [HumanMessage("add a task to call mom")]})

    return turn


async def _cpu(scenario: Scenario) -> float:
    """CPU seconds of one turn in units of the spin loop around it."""
    before = spin()
    started = time.process_time()
    await scenario()
    spent = time.process_time() - started
    return spent / ((before + spin()) / 2)


async def measure() -> dict[str, tuple[float, float, float]]:
    """For each scenario: our CPU per turn in spins, the peer's, and their ratio."""
    results = {}
    for name, rounds in ROUNDS.items():
        mine, theirs = ours(rounds), create_agent(rounds)
        for _ in range(WARM_UP):
            await mine()
            await theirs()
        gc.collect()
        gc.freeze()
        spent: dict[Scenario, list[float]] = {mine: [], theirs: []}
        for number in range(REPEATS):
            # In turns, and each goes first as often as the other.
            for scenario in (mine, theirs) if number % 2 else (theirs, mine):
                spent[scenario].append(await _cpu(scenario))
        ours_median, theirs_median = statistics.median(spent[mine]), statistics.median(spent[theirs])
        results[name] = (ours_median, theirs_median, ours_median / theirs_median)
    return results


def main() -> None:
    import importlib.metadata as metadata

    warnings.simplefilter("ignore")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("langgraph", "langchain"))
    print(f"CPU per turn, compiled graph beside create_agent, interleaved ({versions})")
    unit = spin_microseconds()
    print(f"one spin = {unit:.0f} µs here\n")
    print(f"{'':18}{'ours µs':>10}{'peer µs':>10}{'ratio':>8}{'at most':>9}")
    for name, (mine, theirs, ratio) in asyncio.run(measure()).items():
        print(f"{name:18}{mine * unit:10.0f}{theirs * unit:10.0f}{ratio:8.2f}{LIMITS[name]:9.1f}")


if __name__ == "__main__":
    main()
