"""Budgets: calls that are counted in the transaction that precedes them, by several services on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionType
from graph_agent.models.facts import PastUse
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.ports import SentCall
from graph_agent.record.operations import find_uses
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.frozen_clock import pass_time
from tests.policy.cedar_shop import PERMIT, SHOP, ShopTool, constitution_of, declarations_of, schema
from tests.replays.random_turns import CrashingWriter
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped
from tests.settling import settle_unknown

LONG = AgentEngineConfig(timeout_seconds=600)
"""No test waits for this deadline, and a busy machine does not reach it."""
SHORT = AgentEngineConfig(timeout_seconds=8)
"""The deadline of turns in processes that crash, on a clock that advances by itself."""
EXECUTED = CallDisposition.EXECUTED
LOST = failed(ToolErrorCode.TIMEOUT_ERROR)
TOOLS = [tool for tool in SHOP if tool.name in ("refund", "ship", "find_order", "read_private", "send_mail")]
DAY = PERMIT + (
    '@id("2000 a day") forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 2000 };'
)
ASKS = DAY.replace("};", "} unless { context.confirmed };")


def refund(amount: int, order: str = "1") -> tuple[str, dict[str, Any]]:
    return "refund", {"order": order, "amount": amount}


def service(
    log: Database,
    server: TableServer,
    *script: Any,
    rules: str = DAY,
    clock: ManualClock | None = None,
    tools: Sequence[ShopTool] = TOOLS,
    config: AgentEngineConfig = LONG,
    crash_after: int | None = None,
) -> LLMAgentEngine:
    """Return the engine of one of several services on the same log."""
    clock = clock or ManualClock()
    writer = DatabaseAuditWriter(log, clock=clock)
    audit = writer if crash_after is None else CrashingWriter(writer, crash_after)
    ports = {"audit": audit, "clock": clock, "ids": RandomIds(), "signer": Signer(SECRET)}
    settings = grouped(**ports, conditions=ConditionsFile(rules, time_zone="Europe/Berlin"), config=config)
    return LLMAgentEngine(ScriptedAdapter(list(script)), server, constitution_of(tools), **settings)


def shop(**settings: Any) -> TableServer:
    return TableServer(served=declarations_of(TOOLS), **settings)


async def uses(log: Database, user: str = "ann") -> list[PastUse]:
    return await log.read(lambda connection: find_uses(connection, user, datetime(2026, 1, 1, tzinfo=UTC)))


def total(found: Sequence[PastUse]) -> int:
    return sum(int(use.amounts["amount"]) for use in found)


def spent(server: TableServer) -> int:
    return sum(arguments["amount"] for name, arguments, *_ in server.sent if name == "refund")


async def replayed(run: LLMAgentEngine, turn: FinishedTurn, **what_if: Any) -> ReplayReport:
    return await replay(turn.record, await run.audit.texts(list(turn.record.header.digests.values())), **what_if)


def dispositions(turn: FinishedTurn) -> list[CallDisposition]:
    return [call.disposition for call in turn.record.invocations]


@pytest.mark.usefixtures("patient_locks")
async def test_parallel_calls_of_several_services_never_overspend(log: Database, database_url: str) -> None:
    server, databases = shop(), [log, Database.open(database_url)]
    services = [service(databases[n % 2], server, calls(refund(90)), says("Done.")) for n in range(40)]
    turns = await asyncio.gather(*(one.run(asks(conversation_id=f"c{n}")) for n, one in enumerate(services)))
    assert spent(server) == 22 * 90
    refused = [turn for turn in turns if dispositions(turn) == [CallDisposition.REFUSED]]
    assert len(refused) == 18
    assert {notice.rpartition(". ")[2] for turn in refused for notice in turn.decision.notices} == {"2000 a day."}
    for turn in turns:
        assert (await replayed(services[0], turn)).identical
    # Another user has a budget too.
    await service(log, server, calls(refund(2000)), says("Done.")).run(asks(user_id="bob", conversation_id="b"))
    assert spent(server) == 22 * 90 + 2000
    databases[1].close_now()


@pytest.mark.parametrize("ledger", [False, True])
async def test_only_calls_that_may_have_taken_effect_count(log: Database, ledger: bool) -> None:
    """An unknown outcome counts; a certain failure, a repetition and a refused call do not."""
    outcomes = {
        "1": done(),
        "2": failed(ToolErrorCode.NOT_FOUND),
        "3": failed(ToolErrorCode.TIMEOUT_ERROR),
        "4": failed(ToolErrorCode.TIMEOUT_ERROR),
    }
    # The ledger settles the first lost call as done, and the second as not done.
    settlements = [done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR)] if ledger else []
    server = shop(answers={"refund": lambda call: outcomes[call["order"]]}, settlements=settlements, ledger=ledger)
    requested = [refund(100), refund(100), refund(200, "2"), refund(400, "3"), refund(800, "4")]
    turn = await service(log, server, calls(*requested), calls(refund(2000, "5")), says("Done.")).run(asks())
    assert dispositions(turn)[1::4] == [CallDisposition.REPEATED, CallDisposition.REFUSED]
    assert total(await uses(log)) == (500 if ledger else 1300)


async def test_hour_and_day_are_those_of_the_calendar_in_one_time_zone(log: Database) -> None:
    rules = PERMIT + (
        'forbid (principal, action == Action::"refund", resource) when { context.used.hour.calls > 1 };'
        'forbid (principal, action == Action::"refund", resource) when { context.used.day.calls > 2 };'
    )
    clock, server = ManualClock(datetime(2026, 1, 5, 21, 50, tzinfo=UTC)), shop()
    made = []
    for minutes in (0, 9, 2, 20, 39, 50):
        # In Berlin: 22:50, 22:59, 23:01, 23:21, 0:00 and 0:50.
        clock.advance(minutes=minutes)
        before = len(server.sent)
        await service(log, server, calls(refund(1)), says("Done."), rules=rules, clock=clock).run(asks())
        made.append(len(server.sent) > before)
    assert made == [True, False, True, False, True, False]


async def test_reads_are_counted_if_a_condition_counts_them(log: Database) -> None:
    rules = PERMIT + 'forbid (principal, action == Action::"list_tasks", resource) when { context.used.day.calls > 1 };'
    tools = [ShopTool("list_tasks", schema(), reads=True)]
    server, found = TableServer(served=declarations_of(tools)), []
    for _ in range(3):
        run = service(log, server, calls(("list_tasks", {})), says("Done."), rules=rules, tools=tools)
        found += dispositions(await run.run(asks()))
    assert found == [EXECUTED, CallDisposition.REFUSED, CallDisposition.REFUSED]


async def test_another_limit_or_argument_counts_what_was_done_before(log: Database) -> None:
    parts = {"type": "number"}
    tools = [ShopTool("pay", schema("amount", "fee", "tip", amount=parts, fee=parts, tip=parts))]

    async def paid(rule: str, **arguments: float) -> CallDisposition:
        rules = f'{PERMIT} forbid (principal, action == Action::"pay", resource) when {{ {rule} }};'
        script = [calls(("pay", {"amount": 1, "fee": 1, "tip": 0, **arguments})), says("Done.")]
        (found,) = dispositions(
            await service(log, TableServer(served=declarations_of(tools)), *script, rules=rules, tools=tools).run(asks())
        )
        return found

    many = 'context.used.{}.sum.{}.greaterThan(decimal("{}.0"))'
    # A number that Cedar does not have, and that no condition reads.
    assert await paid(many.format("day", "amount", 10), amount=5, fee=7.5, tip=0.123456) is EXECUTED
    assert await paid(many.format("day", "amount", 5)) is CallDisposition.REFUSED
    assert await paid(many.format("day", "fee", 8)) is CallDisposition.REFUSED
    assert await paid(many.format("day", "fee", 9)) is EXECUTED
    # Of what it cannot count it takes the most.
    assert await paid(many.format("day", "tip", 1_000_000)) is CallDisposition.REFUSED


async def test_a_counted_read_that_fails_is_not_sent_again(log: Database) -> None:
    tools = [ShopTool("list_tasks", schema(), reads=True)]
    for window, sent in (("day", 1), ("message", 2)):
        rules = f"{PERMIT} forbid (principal, action, resource) when {{ context.used.{window}.calls > 5 }};"
        server = TableServer(served=declarations_of(tools), answers={"list_tasks": failed(ToolErrorCode.TOOL_EXECUTION_ERROR)})
        script, config = [calls(("list_tasks", {})), says("Done.")], LONG.model_copy(update={"read_retries": 1})
        await service(log, server, *script, rules=rules, tools=tools, config=config).run(asks())
        assert len(server.sent) == sent


@pytest.mark.parametrize("asking", [False, True])
async def test_the_verdict_of_the_reservation_wins_and_what_follows_waits_with_it(log: Database, asking: bool) -> None:
    """Another turn uses up the budget after the batch was judged: while its first call runs."""
    rules = ASKS if asking else DAY

    async def meanwhile(_: dict[str, Any]) -> ToolResult:
        await service(log, shop(), calls(refund(1900)), says("Done."), rules=rules).run(asks(conversation_id="c2"))
        return done()

    server = shop(answers={"ship": meanwhile})
    batch = [("ship", {"order": "1", "carrier": "dhl"}), refund(150, "3"), refund(20, "2")]
    run = service(log, server, calls(*batch), says("Done."), rules=rules)
    turn = await run.run(asks())
    waiting = [CallDisposition.AWAITING, CallDisposition.AWAITING]
    assert dispositions(turn) == [EXECUTED, *(waiting if asking else [CallDisposition.REFUSED, EXECUTED])]
    assert (await replayed(run, turn)).identical
    if asking:
        assert turn.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
        assert turn.decision.reply.startswith(
            "A rule asks for your yes: 2000 a day. Already done: Ship (carrier dhl, order '1'). 2 actions, in this order:"
        )
        confirmed = await run.answer(turn, yes=True)
        assert spent(server) == 170
        assert (await replayed(run, confirmed)).identical
    else:
        assert spent(server) == 20
        assert turn.decision.notices[0].endswith("2000 a day.")


@dataclass
class Till(TableServer):
    """A server with a ledger that loses answers, before or after the effect."""

    chance: Random = field(default_factory=lambda: Random(1))
    effects: dict[str, int] = field(default_factory=dict)
    voided: set[str] = field(default_factory=set)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        await asyncio.sleep(0)
        if call.operation_key in self.effects:
            return done()
        if call.operation_key in self.voided or self.chance.random() < 0.1:
            return failed(ToolErrorCode.TOOL_EXECUTION_ERROR)
        if self.chance.random() < 0.15:
            return LOST
        self.effects[call.operation_key] = call.arguments["amount"]
        assert sum(self.effects.values()) <= 2000
        return LOST if self.chance.random() < 0.15 else done()

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        if self.chance.random() < 0.3:
            return LOST
        if call.operation_key in self.effects:
            return done()
        self.voided.add(call.operation_key)
        return failed(ToolErrorCode.TOOL_EXECUTION_ERROR)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 8))])
async def test_crashes_and_retries_leave_the_budget_equal_to_the_effects(log: Database, database_url: str, seed: int) -> None:
    chance, clock, database = Random(seed), ManualClock(), Database.open(database_url)
    till = Till(served=declarations_of(TOOLS), chance=chance)

    async def turn(number: int) -> None:
        """Two refunds, in a process that crashes before one of its commits, and another process that ends or continues it."""
        amounts = [chance.randrange(60, 240) for _ in range(2)]
        script = [calls(*(refund(amount, f"{number}-{amount}") for amount in amounts)), *[says("Done.")] * 3]
        shared: dict[str, Any] = {"clock": clock, "config": SHORT}
        first = service(database, till, *script, **shared, crash_after=chance.choice([1, 2, 3, 4, 99]))
        name = f"decision {number}"
        with suppress(ServiceError):
            await first.run(asks(conversation_id=f"c{number}"), decision_id=name)
        for _ in range(2):
            # The second one is a retry that finds the decision.
            await service(database, till, *script[1:], **shared).finish(name, ask_model=chance.random() < 0.5)

    for number in range(0, 18, 3):
        await pass_time(clock, asyncio.gather(*(turn(number + n) for n in range(3))))
        assert sum(till.effects.values()) <= total(await uses(log)) <= 2000
    settle = partial(settle_unknown, till, log, clock=clock)
    while not all(use.settled for use in await uses(log)):
        await settle()
    await database.close()
    # How many refunds are made depends on when the processes crash.
    assert 500 < total(await uses(log)) == sum(till.effects.values())
