"""Generated rules, plans and calls through the compiled graph, and what no call that was sent may have been.

What is expected is computed here from the tables below, not by the package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import select

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.question.approvals import ApprovalStore
from graph_agent.question.tables import questions
from graph_agent.record.tables import mandate_draws
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.policy.cedar_shop import COUNT, PERMIT, TEXT, ShopTool, constitution_of, declarations_of, schema
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped
from tests.turn.test_budgets import LONG

Arguments = Mapping[str, Any]

WHEN: Mapping[str, Callable[[Arguments, int], bool]] = {
    "": lambda _, __: True,
    'when { context.arguments has order && context.arguments.order == "W1" }': lambda call, _: call.get("order") == "W1",
    "when { context.arguments has amount && context.arguments.amount > 5 }": lambda call, _: call.get("amount", 0) > 5,
    "when { context.used.day.calls > 3 }": lambda _, made: made + 1 > 3,
}
"""The condition of a rule -> whether it applies to a call, after a number of calls that may have run."""
UNLESS = {
    "": "refused",
    "unless { context.confirmed }": "asks",
    "unless { context.approvals.boss > 0 }": "waits",
    "unless { context.confirmed && context.approvals.boss > 0 }": "waits",
}
MARKERS = ("(in plans)", "(in plans)", "(in plans) (requires confirmation)", "")
BOUNDS: Mapping[str, list[dict[str, Any] | None]] = {
    "order": [{"is": ["W1"]}, {"is": ["W12", "W2"]}, {"is": ["W1", "W2", "W3"]}, None],
    "amount": [{"at_most": 5}, {"at_most": 20}, {"is": [7]}, None],
}
VALUES: Mapping[str, list[Any]] = {"order": ["W1", "W2", "W12", "W", None], "amount": [1, 5, 7, 30, None]}
OUTCOMES = (done(), done(), done(), failed(ToolErrorCode.NOT_FOUND))


class Sent(NamedTuple):
    """A call that was sent, and the line that it was drawn from when it was sent."""

    arguments: Arguments
    line: int | None
    made: int
    """The number of calls before it that may have run."""
    failed: bool


@dataclass
class Desk(TableServer):
    """A tool that looks for the draw of each call when the call arrives."""

    log: Database = field(kw_only=True)
    random: Random = field(kw_only=True)
    arrived: list[Sent] = field(default_factory=list)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        await super().execute(call, deadline=deadline)
        stored = select(mandate_draws.c.line).where(mandate_draws.c.operation_key == call.operation_key)
        line = await self.log.read(lambda connection: connection.scalar(stored))
        outcome = self.random.choice(OUTCOMES)
        made = sum(not one.failed for one in self.arrived)
        self.arrived.append(Sent(call.arguments, line, made, not outcome.success))
        return outcome


@dataclass
class Case:
    """One conversation: a plan, the yes to it, and two messages with calls."""

    log: Database
    graph: CompiledGraph
    seed: int

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        self.marker = random.choice(MARKERS)
        self.rules = [(random.choice([*WHEN]), random.choice([*UNLESS])) for _ in range(random.randrange(2))]
        self.rules.append(("", "unless { context.confirmed }"))
        self.lines = [self.line() for _ in range(random.randrange(1, 3))]
        self.tool = ShopTool("refund", schema(order=TEXT, amount=COUNT), marker=self.marker)
        self.desk = Desk(served=declarations_of([self.tool]), log=self.log, random=random)
        self.clock = ManualClock()

    def line(self) -> dict[str, Any]:
        chosen = {name: self.random.choice(bounds) for name, bounds in BOUNDS.items()}
        arguments = {name: bound for name, bound in chosen.items() if bound is not None}
        total = {"sum": {"amount": self.random.choice([6, 12])}} if "amount" in arguments and self.random.random() < 0.5 else {}
        return {"tool": "refund", "arguments": arguments, "times": self.random.randrange(1, 4), **total}

    def call(self) -> tuple[str, dict[str, Any]]:
        """Return a call that fits a line, or one that is much like it."""
        bounds, random = self.random.choice(self.lines)["arguments"], self.random
        fitting = {
            name: random.choice([value for value in VALUES[name] if _is_within(value, bound)]) for name, bound in bounds.items()
        }
        other = random.choice([*VALUES])
        changed = {other: random.choice(VALUES[other])} if random.random() < 0.4 else {}
        return "refund", {name: value for name, value in {**fitting, **changed}.items() if value is not None}

    async def say(self, text: str, *script: Any, **more: Any) -> Any:
        self.clock.advance(seconds=1)
        rules = PERMIT + "".join(
            f'@id("{n}") forbid (principal, action, resource) {when} {unless};\n' for n, (when, unless) in enumerate(self.rules)
        )
        ports = {"audit": DatabaseAuditWriter(self.log, clock=self.clock), "clock": self.clock, "ids": RandomIds()}
        conditions = ConditionsFile(rules, roles=("boss",))
        approvals = ApprovalStore(self.log, record_key=b"a key of the record for tests only")
        settings = grouped(
            **ports, approvals=approvals, signer=Signer(SECRET), conditions=conditions, config=LONG, graph=self.graph
        )
        engine = LLMAgentEngine(ScriptedAdapter(list(script)), self.desk, constitution_of([self.tool]), **settings)
        who = f"user {self.seed}"
        return (await engine.run(asks(text, user_id=who, conversation_id=f"of {who}", **more))).decision.pending_action

    async def play(self) -> None:
        pending = await self.say("please", calls(("propose_plan", {"lines": self.lines})), says("I cannot."))
        for text in ("yes", "go on"):
            rounds = [calls(*(self.call() for _ in range(self.random.randrange(1, 3)))) for _ in range(4)]
            await self.say(text, *rounds, says("Done."), says("Done."), pending_confirmation=pending)
            pending = None

    def violations(self) -> Iterable[str]:
        """Yield what was sent and must not have been, in words."""
        drawn: dict[int, list[Sent]] = {}
        for one in self.desk.arrived:
            found = {UNLESS[unless] for when, unless in self.rules if WHEN[when](one.arguments, one.made)}
            needs_yes = "asks" in found or "requires confirmation" in self.marker
            if "refused" in found:
                yield f"{one} is refused by {self.rules}"
            if "waits" in found:
                yield f"{one} waits for an approval of {self.rules}"
            if needs_yes and one.line is None:
                yield f"{one} was not drawn when it was sent: {self.rules} {self.marker}"
            if one.line is not None:
                line = self.lines[one.line - 1]
                if not _fits(one.arguments, line["arguments"]):
                    yield f"{one} does not fit {line}"
                with_this = [*drawn.get(one.line, []), one]
                spent = sum(each.arguments.get("amount", 0) for each in with_this)
                if len(with_this) > line["times"] or spent > line.get("sum", {}).get("amount", spent):
                    yield f"{one} is more than {line} permits: {with_this}"
                # What certainly failed frees its draw.
                drawn[one.line] = with_this[:-1] if one.failed else with_this


def _fits(arguments: Arguments, bounds: Mapping[str, Mapping[str, Any]]) -> bool:
    return arguments.keys() == bounds.keys() and all(_is_within(arguments[name], bound) for name, bound in bounds.items())


def _is_within(value: Any, bound: Mapping[str, Any]) -> bool:
    return value in bound["is"] if "is" in bound else value is not None and 0 <= value <= bound["at_most"]


async def play(seeds: Iterable[int]) -> list[Case]:
    """Play the cases on one database, up to the first that violates something."""
    log = Database.open("sqlite://")
    for tables in (tree_leaves.metadata, questions.metadata):
        log.write_now(tables.create_all)
    graph, played = build_graph(), list[Case]()
    for seed in seeds:
        played.append(case := Case(log, graph, seed))
        await case.play()
        if [*case.violations()]:
            break
    await log.close()
    return played


def first_violation(seeds: Iterable[int]) -> str:
    """Return the first violation of the cases, empty if there is none."""
    *_, last = asyncio.run(play(seeds))
    return next(iter(last.violations()), "")
