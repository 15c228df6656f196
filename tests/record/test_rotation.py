"""Rotation of the secret: what was signed and sealed with the previous key is valid, and the current key seals from then on."""

from __future__ import annotations

from functools import partial

from sqlalchemy import select

from graph_agent.audit.retention import prune
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.models.record import DecisionOpening
from graph_agent.record.chain import ChainKey, Sealer, derive_chain_key
from graph_agent.record.chain_tables import record_chains
from graph_agent.record.tamper.heads import sign_heads
from graph_agent.record.tamper.pruned import mark_pruned
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import asks, engine_of, says

OLD = derive_chain_key(b"the secret before the rotation")
NEW = derive_chain_key(b"the secret after the rotation")
BOTH = (NEW, OLD)


def engine_on(log: Database, key: ChainKey, *replies: str) -> LLMAgentEngine:
    return engine_of(*map(says, replies), audit=DatabaseAuditWriter(log, chain_key=key), clock=ManualClock())


async def test_a_turn_that_is_open_during_the_rotation_closes_and_verifies(log: Database) -> None:
    before = engine_on(log, OLD, "hi")
    await before.run(asks("hello"))
    snapshot = await before.prepare()
    await before.audit.write_opening(DecisionOpening.of(before.header(asks("hello"), snapshot, "open"), snapshot.texts))
    assert (await verify_log(log, key=BOTH)).open == 1
    assert await engine_on(log, BOTH).finish("open", ask_model=False) is not None

    report = await verify_log(log, key=BOTH)
    assert (report.violations, report.records, report.open) == ([], 2, 0)
    keys = await log.read(lambda connection: set(connection.execute(select(record_chains.c.key_id)).scalars()))
    assert keys == {Sealer(OLD).key_id, Sealer(NEW).key_id}
    # Each key alone knows one of the two chains.
    for key in (OLD, NEW):
        found = (await verify_log(log, key=key)).violations
        assert [violation.kind for violation in found] == [ViolationKind.SIGNATURE]


async def test_old_chains_are_pruned_with_the_new_key_and_compared_with_old_heads(log: Database) -> None:
    await engine_on(log, OLD, "hi").run(asks("hello"))
    heads = await sign_heads(log, OLD, ManualClock().now())
    assert (await verify_log(log, key=BOTH, heads=heads)).intact
    later = ManualClock()
    later.advance(seconds=3600)
    assert (await prune(log, later.now(), mark=partial(mark_pruned, key=BOTH))).decisions == 1

    report = await verify_log(log, key=BOTH, heads=heads)
    assert (report.violations, report.pruned) == ([], 1)
    assert not (await verify_log(log, key=OLD)).intact
