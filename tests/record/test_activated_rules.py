"""From an activation on, every process on the database decides under its rules, or not at all."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import delete, insert, literal, select, update

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError, RulesReplacedError, ServiceError, ServiceErrorCode
from graph_agent.models.record import EntryKind, InterruptReason, RecordStatus
from graph_agent.models.rule_set import Activation, ActivationKind, RuleSet
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.record.rule_sets import activate_rules, list_activations
from graph_agent.record.tables import rule_activations
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import KEY, found, tree_of, verified
from tests.scripted_turns import TableServer, asks, calls, engine_of

ROUNDS = 250
SEALER = Sealer(KEY)
MILK, BREAD = [("add_task", {"description": description}) for description in ("milk", "bread")]


def rules(rounds: int) -> RuleSet:
    return RuleSet({"constitution": Constitution.load().text, "settings": f'{{"max_iterations":{rounds}}}'})


OLD, NEW = rules(5), rules(3)


def process(log: Database, rule_set: RuleSet | None, *script: Any, server: Any = None) -> LLMAgentEngine:
    writer = DatabaseAuditWriter(log, record_key=KEY)
    script = script or (says("Hello."),) * 9
    return engine_of(*script, server=server, audit=writer, clock=ManualClock(), ids=RandomIds(), rule_set=rule_set)


async def activate(log: Database, rule_set: RuleSet, expected: int, **more: Any) -> Activation:
    return await activate_rules(log, rule_set, SEALER, expected=expected, by="ann", reason="a test", **more)


async def greet(engine: LLMAgentEngine) -> str:
    return (await engine.run(asks("hello"))).decision.reply


def numbered(log: Database) -> list[tuple[int, str, ActivationKind]]:
    return [(one.number, one.digest, one.kind) for one in reversed(log.read_now(list_activations))]


async def test_one_of_several_activations_at_once_wins_and_no_number_is_left_out(log: Database) -> None:
    for expected in range(ROUNDS):
        tries = [activate(log, rules(expected * 10 + number + 1), expected) for number in range(4)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        won = [one for one in results if isinstance(one, Activation)]
        lost = [one for one in results if isinstance(one, ServiceError)]
        assert (len(won), {one.code for one in lost}, len(lost)) == (1, {ServiceErrorCode.RULES_CONFLICT}, 3)
        assert won[0].number == expected + 1
    stored = numbered(log)
    assert [number for number, *_ in stored] == list(range(1, ROUNDS + 1))
    assert all(before[1] != after[1] for before, after in pairwise(stored))
    await tree_of(log).seal()
    # Each activation is one leaf, the first one too.
    assert ((await verified(log)).violations, (await verified(log)).size) == ([], ROUNDS)


async def test_a_process_with_other_rules_decides_nothing_after_an_activation(log: Database) -> None:
    old, new = process(log, OLD), process(log, NEW)
    assert await greet(old) == "Hello."
    activated = await activate(log, NEW, 1)
    assert (activated.number, activated.kind, activated.by, activated.reason) == (2, ActivationKind.ACTIVATED, "ann", "a test")
    with pytest.raises(RulesReplacedError, match="Nothing was done; please ask again"):
        await greet(old)
    assert await greet(new) == "Hello."

    await activate(log, OLD, 2, kind=ActivationKind.ROLLBACK)
    assert await greet(old) == "Hello."
    with pytest.raises(RulesReplacedError):
        await greet(new)

    await activate(log, OLD, 3, kind=ActivationKind.RELEASED)
    assert [await greet(new), await greet(old)] == ["Hello.", "Hello."]
    assert numbered(log) == [
        (1, OLD.digest, ActivationKind.FOLLOWED),
        (2, NEW.digest, ActivationKind.ACTIVATED),
        (3, OLD.digest, ActivationKind.ROLLBACK),
        (4, OLD.digest, ActivationKind.RELEASED),
        (5, NEW.digest, ActivationKind.FOLLOWED),
        (6, OLD.digest, ActivationKind.FOLLOWED),
    ]
    await tree_of(log).seal()
    assert (await verified(log)).violations == []


async def test_an_engine_of_your_own_needs_the_constitution_in_force(log: Database) -> None:
    own = process(log, None)
    assert await greet(own) == "Hello."
    await activate(log, NEW, 0)
    assert await greet(own) == "Hello."
    await activate(log, RuleSet({**NEW.parts, "constitution": "# Others"}), 1)
    with pytest.raises(ConfigurationError, match="rules 2 are activated here, and this engine has another constitution"):
        await greet(own)


async def test_an_engine_without_the_conditions_in_force_decides_nothing(log: Database) -> None:
    conditions = {"conditions": "permit (principal, action, resource);", "condition settings": '{"roles":[],"time_zone":"UTC"}'}
    await activate(log, RuleSet({**NEW.parts, **conditions}), 0)
    with pytest.raises(ConfigurationError, match="or other conditions"):
        await greet(process(log, None))


class ActivatedDuring(TableServer):
    """Activates other rules while it runs the first call that is sent to it."""

    def __init__(self, log: Database, expected: int, rule_set: RuleSet = NEW, **more: Any) -> None:
        super().__init__()
        self.log, self.expected, self.rule_set, self.more = log, expected, rule_set, more

    async def execute(self, call: Any, *, deadline: float | None = None) -> ToolResult:
        if not self.sent:
            await activate(self.log, self.rule_set, self.expected, **self.more)
        return await super().execute(call, deadline=deadline)

    @property
    def added(self) -> list[str]:
        return [arguments["description"] for _, arguments, *_ in self.sent]


@pytest.mark.parametrize("rule_set", [OLD, None], ids=["of the installation", "of an engine of your own"])
async def test_a_turn_under_replaced_rules_intends_nothing_more(log: Database, rule_set: RuleSet | None) -> None:
    others = RuleSet({**NEW.parts, "constitution": "# Others"})
    server = ActivatedDuring(log, 0, others) if rule_set is None else ActivatedDuring(log, 1)
    engine = process(log, rule_set, calls(MILK, BREAD), says("Never said."), server=server)

    record = (await engine.run(asks())).record

    assert server.added == ["milk"]
    reasons = [entry.result["reason"] for entry in record.entries if entry.kind is EntryKind.INTERRUPT]
    assert (record.status, reasons) == (RecordStatus.INTERRUPTED, [InterruptReason.RULES])
    assert record.decision.reply == (
        "The rules have changed, so I did nothing further. Please ask again. Already done: Add task 'milk'."
    )
    steps = [step.turn async for step in engine.steps_of(record, await engine.snapshot_of(record.header))]
    assert steps[-1].decision == record.decision


async def test_turns_that_may_drain_end_under_their_rules(log: Database) -> None:
    server = ActivatedDuring(log, expected=1, drain=True)
    engine = process(log, OLD, calls(MILK, BREAD), says("Both added."), server=server)
    assert (await engine.run(asks())).decision.reply == "Both added."
    assert server.added == ["milk", "bread"]
    with pytest.raises(RulesReplacedError):
        await engine.run(asks("again"))


async def test_a_turn_whose_rules_are_in_force_again_goes_on(log: Database) -> None:
    class BackAgain(ActivatedDuring):
        async def execute(self, call: Any, *, deadline: float | None = None) -> ToolResult:
            is_first = not self.sent
            result = await super().execute(call, deadline=deadline)
            if is_first:
                await activate(self.log, OLD, self.expected + 1, kind=ActivationKind.ROLLBACK)
            return result

    server = BackAgain(log, expected=1)
    engine = process(log, OLD, calls(MILK, BREAD), says("Both added."), server=server)
    assert (await engine.run(asks())).decision.reply == "Both added."


_row = rule_activations.c


def by_hand(kind: str) -> Any:
    """Return the row that somebody without the key adds to let each process use its own files."""
    names = ["number", "digest", "at", "host", "kind"]
    return insert(rule_activations).from_select(
        names, select(literal(3), _row.digest, _row.at, _row.host, literal(kind)).where(_row.number == 1)
    )


@pytest.mark.parametrize(
    "change",
    [
        by_hand("released"),
        by_hand("followed"),
        by_hand("activated"),
        update(rule_activations).where(_row.number == 2).values(digest=OLD.digest),
        update(rule_activations).where(_row.number == 2).values(floor=1),
        update(rule_activations).where(_row.number == 2).values(kind="released"),
    ],
    ids=["released", "followed", "activated", "another set", "another floor", "another kind"],
)
async def test_nothing_is_decided_under_rules_that_were_changed_by_hand(log: Database, change: Any) -> None:
    old, new = process(log, OLD), process(log, NEW)
    await greet(old)
    await activate(log, NEW, 1)
    await greet(new)
    await tree_of(log).seal()
    log.write_now(lambda connection: connection.execute(change).close())

    for engine in (old, new):
        with pytest.raises(ServiceError) as refused:
            await greet(engine)
        assert refused.value.code is ServiceErrorCode.RULES_UNAVAILABLE
    last = numbered(log)[-1][0]
    await activate(log, NEW, last)
    assert await greet(new) == "Hello."


@pytest.mark.parametrize(
    "change",
    [by_hand("released"), update(rule_activations).where(_row.number == 2).values(kind="followed"), delete(rule_activations)],
    ids=["added", "another kind", "deleted"],
)
async def test_an_activation_that_was_changed_by_hand_is_reported(log: Database, change: Any) -> None:
    await activate(log, OLD, 0)
    await activate(log, NEW, 1)
    await tree_of(log).seal()
    log.write_now(lambda connection: connection.execute(change).close())
    assert found(await verified(log))
