"""An engine that pays at a payment server, and the sweep after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock, RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock
from graph_agent.record.tables import call_operations, tool_invocation_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.sent_calls import SentCalls
from tests.chat.payment_servers import META_NAME, Kind, PaymentServer, serving
from tests.lost_answer import Fault
from tests.scripted_turns import SECRET, asks, calls, grouped

LINES = {
    "keyed": ["keyed.pay: Pay an amount (without confirmation) (operation key in idempotency_key)"],
    "header": ["header.pay: Pay an amount (without confirmation) (operation key in header Idempotency-Key)"],
    "meta": [f"meta.pay: Pay an amount (without confirmation) (operation key in _meta {META_NAME})"],
    "listed": [
        "listed.pay: Pay an amount (without confirmation) (done if paid $.payments[*])",
        "listed.find_payments: Find payments (reads)",
    ],
    "plain": ["plain.pay: Pay an amount (without confirmation)"],
}


def constitution_of(lines: Sequence[str]) -> str:
    tools = "".join(f"- {line}\n" for line in lines)
    return f"# Shop\n\n## Available Tools\n{tools}\n## Facts\n- paid: listed.find_payments(reference = arguments.reference)\n"


COMPLETE = [LINES["listed"][0] + " (complete)", LINES["listed"][1]]
"""The read finds every payment."""


async def states_by_amount(log: Database) -> dict[int, str]:
    """Return the state of each payment, of which no two have the same amount."""
    calls = tool_invocation_logs.c
    same = (calls.decision_id == call_operations.c.decision_id) & (calls.sequence == call_operations.c.sequence)
    query = select(calls.parameters, call_operations.c.state).join_from(tool_invocation_logs, call_operations, same)
    rows = await log.read(lambda connection: connection.execute(query).all())
    return {row.parameters["amount"]: str(row.state) for row in rows}


class Shop:
    """One payment server, and an engine that pays there."""

    seconds = 8.0
    """The deadline of a turn."""

    def __init__(self, log: Database, server: PaymentServer, lines: list[str]) -> None:
        self.log, self.server = log, server
        self.clock = SystemClock()
        self.audit = DatabaseAuditWriter(log, clock=self.clock)
        self.tools = McpServerGroup([server.config], granted=[line.partition(":")[0] for line in lines])
        self.constitution = constitution_of(lines)

    def engine(self, *script: LLMResponse, constitution: str = "", clock: Clock | None = None) -> LLMAgentEngine:
        ports = {"audit": self.audit, "clock": clock or self.clock, "ids": RandomIds(), "signer": Signer(SECRET)}
        config = AgentEngineConfig(timeout_seconds=self.seconds)
        adapter, constitution = ScriptedAdapter(script), constitution or self.constitution
        return LLMAgentEngine(adapter, self.tools, constitution, **grouped(**ports, config=config))

    async def pay(self, amount: int, *faults: Fault, **more: Any) -> FinishedTurn:
        """Pay in a turn; these are the faults of its requests."""
        self.server.faults.extend(faults)
        engine = self.engine(calls((f"{self.server.kind}.pay", {"amount": amount, **more})), says("See above."))
        finished = await engine.run(asks(f"pay {amount}"))
        self.server.faults.clear()
        return finished

    def settler(self, constitution: str = "", *, seconds_later: float = 0) -> OutcomeSettler:
        """Return a settler whose clock is ahead."""
        clock = ManualClock(self.clock.now() + timedelta(seconds=seconds_later))
        sent_calls = SentCalls(self.engine(constitution=constitution, clock=clock))
        return OutcomeSettler(self.tools, self.log, clock=clock, sent_calls=sent_calls)

    async def states(self) -> list[str]:
        query = select(call_operations.c.state).order_by(call_operations.c.intended_at)
        return [str(state) for state in await self.log.read(lambda connection: connection.execute(query).scalars().all())]

    async def replays(self, record: DecisionRecord) -> bool:
        texts = await self.audit.texts(list(record.header.digests.values()))
        return (await replay(record, texts)).identical


@asynccontextmanager
async def opened(log: Database, kind: Kind, lines: list[str] | None = None) -> AsyncIterator[Shop]:
    async with serving([kind]) as [server]:
        shop = Shop(log, server, lines or LINES[kind])
        try:
            yield shop
        finally:
            await shop.tools.aclose()
