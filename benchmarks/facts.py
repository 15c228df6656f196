"""CPU of a turn with one judged change, by what its conditions read: `python -m benchmarks.facts`.

Three policies: conditions without facts, a file that declares one fact and names none, and a condition on one fact. The first
two cost the same; the third makes one read of the server for each judgement.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

from benchmarks.graph import interleaved
from benchmarks.spin import spin_microseconds
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.turn.engine import LLMAgentEngine
from tests.fact_lines import split
from tests.order_desk import CONSTITUTION, DECLARATIONS, ONLY_PENDING, ORDER, OrderDesk, forbid, policy
from tests.scripted_turns import done, grouped

TURNS = 300
GOAL_MS = 0.8
"""The CPU that one fact may add to a turn, in milliseconds."""
_WITHOUT = forbid("a short reason", "cancel_order", 'context.arguments.order_id like "W*"')
POLICIES = {"no fact": policy("", _WITHOUT), "one declared": policy(ORDER, _WITHOUT), "one read": ONLY_PENDING}


class _OneCallModel:
    """Answers at once: one `cancel_order`, then a sentence."""

    model = "instant"

    async def generate(self, messages: list[LLMMessage], *_: Any, **__: Any) -> LLMResponse:
        if messages[-1].role == "function":
            return LLMResponse(content="Done.", finish_reason="stop")
        return LLMResponse(function_calls=[FunctionCall("cancel_order", {"order_id": "W1"})], finish_reason="tool_calls")

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(DECLARATIONS, tools)


def _engine(rules: str) -> tuple[LLMAgentEngine, OrderDesk]:
    desk = OrderDesk(answers={"cancel_order": lambda _: done()})
    facts, rules = split(rules)
    options = grouped(conditions=ConditionsFile(rules))
    return LLMAgentEngine(_OneCallModel(), desk, f"{CONSTITUTION}\n{facts}", **options), desk


async def measure() -> dict[str, float]:
    """Return the CPU of a turn in spins, by policy."""
    engines = {name: _engine(rules) for name, rules in POLICIES.items()}
    numbers = itertools.count()

    async def turn(engine: LLMAgentEngine) -> Any:
        context = DecisionContext(user_id="ann", message="cancel my order", conversation_id=f"c{next(numbers)}")
        return await engine.run(context)

    found = await interleaved({name: partial(turn, engine) for name, (engine, _) in engines.items()}, TURNS)
    for name, (_, desk) in engines.items():
        reads, writes = (sum(tool == one for tool, _ in desk.sent) for one in ("get_order", "cancel_order"))
        assert reads == (writes if name == "one read" else 0), (name, reads, writes)
    return found


def main() -> None:
    spins = asyncio.run(measure())
    base, spin_ms = spins["no fact"], spin_microseconds() / 1000
    for name, cost in spins.items():
        print(f"{name:>13}: {cost * spin_ms:6.2f} ms, {cost / base:.2f} of the turn without facts")
    more = (spins["one read"] - base) * spin_ms
    print(f"one fact adds {more:.2f} ms of CPU (goal: {GOAL_MS} ms), and one read of the server for the judgement")


if __name__ == "__main__":
    main()
