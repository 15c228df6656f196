"""CPU of a turn with a read and a change, by the rules that hold for the change: `python -m benchmarks.rules`.

Each turn runs on the record in SQLite, with the server in this process. The ratios are to the turn without conditions.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.goals import against, print_missed, settled
from benchmarks.graph import Scenario, interleaved
from benchmarks.spin import spin_microseconds
from graph_agent.db import Database, migrate
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import OrderDesk
from graph_agent.turn.engine import LLMAgentEngine
from tests.desk import CONSTITUTION, NOT_SENT, ORDER, forbid, policy
from tests.fact_lines import split
from tests.scripted_turns import done, grouped

TURNS = 200
_UNDO = (
    "- cancel_order: Cancel order (without confirmation)",
    "- cancel_order: Cancel order (without confirmation) "
    "(undone by return_items(order_id = arguments.order_id, method = order.status) for 30 minutes)",
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of the desk, and the goal for what a turn under them costs beside one without conditions."""

    conditions: str = ""
    goal: float | None = None
    line: tuple[str, str] = ("", "")
    """A line of the constitution, and what stands in its place."""
    facts: str = ""
    reads: int = 1
    """The reads of the server in a turn. An undo reads before the change and after it."""


def _numbered(number: int) -> str:
    return forbid(f"order {number}", "cancel_order", f'context.arguments.order_id != "X{number}"')


_SHADOW = "@shadow " + forbid("in the shadow", "cancel_order", 'context.arguments.order_id == "X1"')
_SOURCES = forbid("of the user or a trusted tool", "cancel_order", '!context.source.order_id.contains("model")')
POLICIES: Mapping[str, Rules] = {
    "without conditions": Rules(),
    "one condition": Rules(policy("", _numbered(1))),
    "twenty conditions": Rules(policy("", *map(_numbered, range(20)))),
    "one in the shadow": Rules(policy("", _SHADOW)),
    "a fact declared, not named": Rules(policy(ORDER, _numbered(1))),
    "a condition on a fact": Rules(NOT_SENT, 1.05, reads=2),
    "a condition on sources": Rules(policy("", _SOURCES), 1.10),
    "an undo with what was before": Rules(goal=1.10, line=_UNDO, facts=ORDER, reads=3),
}


class _OneCallModel:
    """Answers at once: `get_order`, `cancel_order`, then a sentence."""

    model = "instant"

    async def generate(self, messages: Sequence[LLMMessage], *_: Any, **__: Any) -> LLMResponse:
        made = sum(message.role == "function" for message in messages)
        if made == 2:
            return LLMResponse(content="Done.", finish_reason="stop")
        name = ("get_order", "cancel_order")[made]
        return LLMResponse(function_calls=[FunctionCall(name, {"order_id": "W1"})], finish_reason="tool_calls")

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(OrderDesk().declarations(), tools)


@asynccontextmanager
async def _engine(folder: Path, rules: Rules) -> AsyncIterator[tuple[LLMAgentEngine, OrderDesk]]:
    database = Database.open(f"sqlite:///{folder / 'graph_agent.db'}")
    migrate(database, "graph_agent.record")
    desk = OrderDesk(answers={"cancel_order": lambda _: done()})
    facts, conditions = split(rules.facts + rules.conditions)
    constitution = CONSTITUTION.replace(*rules.line) + f"\n{facts}"
    given = ConditionsFile(conditions) if conditions.strip() else None
    settings = grouped(conditions=given, audit=DatabaseAuditWriter(database))
    yield LLMAgentEngine(_OneCallModel(), desk, constitution, **settings), desk
    await database.close()


async def measure(folder: Path) -> dict[str, float]:
    """Return the CPU of a turn in spins, by policy."""
    numbers = itertools.count()

    async def turn(engine: LLMAgentEngine) -> Any:
        number = next(numbers)
        context = DecisionContext(user_id=f"user {number}", message="cancel my order W1", conversation_id=f"c{number}")
        finished = await engine.run(context)
        assert finished.decision.effects, finished.decision
        return finished

    async with AsyncExitStack() as stack:
        scenarios: dict[str, Scenario] = {}
        desks: dict[str, OrderDesk] = {}
        for number, (name, rules) in enumerate(POLICIES.items()):
            (place := folder / str(number)).mkdir()
            engine, desks[name] = await stack.enter_async_context(_engine(place, rules))
            scenarios[name] = partial(turn, engine)
        found = await interleaved(scenarios, TURNS)
    for name, desk in desks.items():
        reads, writes = (sum(tool == one for tool, _ in desk.sent) for one in ("get_order", "cancel_order"))
        assert reads == writes * POLICIES[name].reads, (name, reads, writes)
    return found


def main() -> None:
    """Print one line for each policy."""
    unit = spin_microseconds() / 1000
    goals = {name: rules.goal for name, rules in POLICIES.items() if rules.goal is not None}

    def once() -> tuple[dict[str, float], dict[str, float]]:
        with tempfile.TemporaryDirectory() as name:
            spins = asyncio.run(measure(Path(name)))
        base = spins["without conditions"]
        return spins, {name: spent / base for name, spent in spins.items()}

    print("CPU of a turn with a read and a change, record in SQLite, by the rules for the change")
    spins, ratios = settled(once, goals)
    for name, spent in spins.items():
        ratio = ratios.get(name, spent / spins["without conditions"])
        print(f"  {name:30}{spent * unit:6.2f} ms, {ratio:.2f}{against(name, ratio, POLICIES[name].goal)}")


if __name__ == "__main__":
    main()
    print_missed()
