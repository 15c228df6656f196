"""Rotation of the keys: what was written under the previous ones is valid, and the current ones are used from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import RecordRolledBackError
from graph_agent.models.record import DecisionOpening
from graph_agent.record.tamper.verify import verify_decision
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.record.tree.service import RecordTree, TreeSealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.note import KeyType, SigningKey
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import KEY, LOG_KEY, LogFiller, running_witness, tree_of, verified
from tests.scripted_turns import asks, engine_of

OLD = derive_record_key(b"the secret before the rotation")
NEW = derive_record_key(b"the secret after the rotation")
BOTH = (NEW, OLD)


def engine_on(log: Database, key: RecordKey, *replies: str) -> LLMAgentEngine:
    return engine_of(*map(says, replies), audit=DatabaseAuditWriter(log, record_key=key), clock=ManualClock())


async def test_a_turn_that_is_open_during_the_rotation_of_the_secret_closes_and_verifies(log: Database) -> None:
    before = engine_on(log, OLD, "hi")
    await before.run(asks("hello"))
    snapshot = await before.prepare()
    await before.audit.write_opening(DecisionOpening.of(before.header(asks("hello"), snapshot, "open"), snapshot.texts))
    assert (await verified(log, key=BOTH)).open == 1
    assert await engine_on(log, BOTH).finish("open", ask_model=False) is not None

    report = await verified(log, key=BOTH)
    assert (report.violations, report.waiting, report.open) == ([], 2, 0)
    # Each key alone knows one of the two rows that wait.
    for key in (OLD, NEW):
        assert [violation.kind for violation in (await verified(log, key=key)).violations] == [ViolationKind.ADDED]
    assert await tree_of(log, BOTH).seal() == 2
    # What is in the tree needs no secret.
    assert (await verified(log, key=None)).records == 2


async def test_during_the_rotation_of_the_log_key_both_keys_sign_and_each_verifies(log: Database) -> None:
    new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
    await engine_on(log, NEW, "hi").run(asks("hello"))
    both = LogKeys([new, LOG_KEY])
    assert await RecordTree(log, both, key=NEW, clock=ManualClock()).seal() == 1
    for keys in (both, LogKeys([new]), LogKeys([LOG_KEY])):
        assert (await verified(log, key=NEW, keys=keys)).violations == []
    other = LogKeys([SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)])
    assert [violation.kind for violation in (await verified(log, key=NEW, keys=other)).violations] == [ViolationKind.SIGNATURE]


async def test_the_first_seal_with_a_new_key_signs_a_log_that_has_nothing_else_to_seal(log: Database, tmp_path: Path) -> None:
    async with running_witness(tmp_path) as witness:
        [name] = await LogFiller.on(log).fill(1)
        head, witnesses = tmp_path / "log.head", [witness]
        before = tree_of(log, head=head, witnesses=witnesses)
        await before.seal()
        await before.push()
        new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
        rotating, rotated = (
            RecordTree(log, LogKeys(keys), key=KEY, clock=ManualClock(), head=head, witnesses=witnesses)
            for keys in ([new, LOG_KEY], [new])
        )
        # One leaf more, which states the new key.
        assert [await tree.seal() for tree in (rotating, rotating, rotated)] == [2, 0, 0]
        # The signature of the witness is stored with a note of the old key alone.
        report = await verified(log, rotated, keys=rotated.keys, witnesses=[witness.key])
        assert (report.violations, report.size) == ([], 2)
        # A proof has a checkpoint that the new key has signed, even if no witness has seen it yet.
        assert await verify_decision(log, name, keys=rotated.keys, key=KEY) == []


async def test_a_process_that_was_not_restarted_after_a_rotation_does_not_sign_over_the_new_key(log: Database) -> None:
    filler = LogFiller.on(log)
    await filler.fill(1)
    outdated = tree_of(log)
    await outdated.seal()
    new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
    await RecordTree(log, LogKeys([new, LOG_KEY]), key=KEY, clock=ManualClock()).seal()
    await filler.turn("hello", says("hi"))
    for process in (outdated, tree_of(log)):
        with pytest.raises(RecordRolledBackError, match="restart it after a rotation"):
            await process.seal()
    # The old key is removed, and what waited is sealed.
    assert await RecordTree(log, LogKeys([new]), key=KEY, clock=ManualClock()).seal() == 3


async def test_a_rotation_after_an_outdated_process_has_compared_the_head_stops_its_first_seal(log: Database) -> None:
    await LogFiller.on(log).fill(1)
    await tree_of(log).seal()
    outdated = TreeSealer(LogKeys([LOG_KEY]), Sealer(KEY), clock=ManualClock())
    await log.read(lambda connection: outdated.require_continuation(connection, []))
    new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
    await RecordTree(log, LogKeys([new, LOG_KEY]), key=KEY, clock=ManualClock()).seal()
    with pytest.raises(RecordRolledBackError, match="restart it after a rotation"):
        await log.write(outdated.seal)


async def test_a_host_that_has_nothing_to_seal_after_a_rotation_keeps_the_head_with_the_new_signature(
    log: Database, tmp_path: Path
) -> None:
    await LogFiller.on(log).fill(1)
    head = tmp_path / "log.head"
    await tree_of(log, head=head).seal()
    new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
    # Another host states the new key, and then the old one is removed.
    await RecordTree(log, LogKeys([new, LOG_KEY]), key=KEY, clock=ManualClock()).seal()
    for keys in ([new, LOG_KEY], [new]):
        assert await RecordTree(log, LogKeys(keys), key=KEY, clock=ManualClock(), head=head).seal() == 0
