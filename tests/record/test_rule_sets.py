"""The commit that opens a decision puts the rules of its process in force, and the log says since when."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, literal, select, update

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.models.record import DecisionOpening
from graph_agent.models.rule_set import RuleSet
from graph_agent.record.rule_sets import activation_of, find_activation, list_activations, open_under_rules
from graph_agent.record.tables import rule_activations, rule_sets
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import KEY, found, pruned, tree_of, verified
from tests.scripted_turns import asks, engine_of


def process(log: Database, clock: ManualClock, rounds: int) -> LLMAgentEngine:
    """Return the engine of a process whose rules permit this many rounds."""
    script = [says("Hello.")] * 9
    writer = DatabaseAuditWriter(log, clock=clock, record_key=KEY)
    rules = RuleSet({"constitution": "# Rules", "settings": f'{{"max_iterations":{rounds}}}'})
    return engine_of(*script, audit=writer, clock=clock, ids=RandomIds(), rule_set=rules)


def activations(log: Database) -> list[tuple[int, str]]:
    return [(one.number, one.digest) for one in reversed(log.read_now(list_activations))]


async def test_each_change_is_an_activation_and_each_record_names_its_rules(log: Database) -> None:
    clock = ManualClock()
    old, new = process(log, clock, 5), process(log, clock, 3)
    records = []
    for engine in (old, old, new, old):
        clock.advance(seconds=60)
        records.append((await engine.run(asks("hello"))).record)

    assert old.rule_set is not None
    assert new.rule_set is not None
    before, after = old.rule_set.digest, new.rule_set.digest
    assert before != after
    assert [record.header.rules for record in records] == [before, before, after, before]
    assert activations(log) == [(1, before), (2, after), (3, before)]
    under = [log.read_now(partial(activation_of, header=one.header)) for one in records]
    assert [one and (one.number, one.at) for one in under] == [
        (1, records[0].header.started_at),
        (1, records[0].header.started_at),
        (2, records[2].header.started_at),
        (3, records[3].header.started_at),
    ]
    assert log.read_now(lambda connection: find_activation(connection, 2)) == (under[2], new.rule_set)
    replayed = await (await load_from_log(log, records[2].header.decision_id)).replay(Replayer())
    assert replayed.identical
    await tree_of(log).seal()
    # Four decisions and two changes; the first rules have changed nothing.
    assert ((await verified(log)).violations, (await verified(log)).size) == ([], 6)


async def test_processes_that_open_decisions_at_once_make_no_gap_and_no_number_twice(log: Database) -> None:
    engines = [process(log, ManualClock(), 1 + number % 3) for number in range(12)]

    await asyncio.gather(*(engine.run(asks("hello", conversation_id=f"c{n}")) for n, engine in enumerate(engines)))

    numbered = activations(log)
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1))
    assert all(one != following for (_, one), (_, following) in pairwise(numbered))
    assert (await verified(log)).violations == []


@pytest.mark.postgresql
async def test_a_process_that_waits_for_another_one_reads_the_rules_again(
    migrated_postgresql_url: str,
) -> None:
    """Both have read that no rules are in force; the second one waits for the lock, and then finds those of the first."""
    first, second = (Database.open(migrated_postgresql_url) for _ in range(2))
    rules, at = RuleSet({"constitution": "# Rules"}), ManualClock().now()
    opening = DecisionOpening(decision_id="d", conversation_id="c", user_id="ann", message="hello", rule_set=rules)
    locked, may_commit = threading.Event(), threading.Event()

    def follow_slowly(connection: Connection) -> None:
        open_under_rules(connection, opening, at, Sealer(None))
        locked.set()
        may_commit.wait(10)

    try:
        writing = asyncio.ensure_future(first.write(follow_slowly))
        await asyncio.to_thread(locked.wait, 10)
        waiting = asyncio.ensure_future(
            second.write(lambda connection: open_under_rules(connection, opening, at, Sealer(None)))
        )
        _, pending = await asyncio.wait({waiting}, timeout=0.2)
        assert pending
        may_commit.set()
        await asyncio.gather(writing, waiting)
        assert activations(first) == [(1, rules.digest)]
    finally:
        for database in (first, second):
            await database.close()


async def test_an_engine_of_its_own_has_no_activations(log: Database) -> None:
    """Any number of agents may share a record, with other constitutions and other prompts for each user."""
    engine = engine_of(says("Hello."), audit=DatabaseAuditWriter(log, record_key=KEY))
    assert "rules" not in (await engine.run(asks("hello"))).record.header.to_json()
    assert activations(log) == []


async def test_the_rules_stay_when_all_their_decisions_are_pruned(log: Database) -> None:
    clock = ManualClock()
    engine = process(log, clock, 5)
    await engine.run(asks("hello"))

    clock.advance(seconds=30 * 24 * 3600)
    assert (await pruned(log, clock.now(), key=KEY)).decisions == 1

    assert log.read_now(lambda connection: find_activation(connection)) is not None
    assert (await verified(log)).violations == []


_row = rule_activations.c


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (delete(rule_activations).where(_row.number == 2), ViolationKind.REMOVED),
        (delete(rule_activations).where(_row.number == 1), ViolationKind.REMOVED),
        (update(rule_activations).where(_row.number == 1).values(digest="0" * 64), ViolationKind.EDITED),
        (
            insert(rule_activations).from_select(
                ["number", "digest", "at", "host"], select(literal(3), _row.digest, _row.at, _row.host).where(_row.number == 1)
            ),
            ViolationKind.EDITED,
        ),
        (update(rule_sets).values(parts={"constitution": "# Others"}), ViolationKind.TEXT),
        (delete(rule_sets), ViolationKind.TEXT),
    ],
    ids=["last activation deleted", "first one deleted", "first one changed", "one added", "set changed", "set deleted"],
)
async def test_rules_that_were_changed_by_hand_are_reported(log: Database, change: Any, kind: ViolationKind) -> None:
    clock = ManualClock()
    for rounds in (5, 3):
        await process(log, clock, rounds).run(asks("hello"))
    await tree_of(log).seal()
    assert (await verified(log)).violations == []

    log.write_now(lambda connection: connection.execute(change).close())

    assert kind in {kind for kind, _ in found(await verified(log))}
