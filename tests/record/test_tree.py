"""The record as a transparency log: what an administrator of the database can change, and how it is found."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, text, update
from sqlalchemy.exc import ProgrammingError

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import RecordRolledBackError
from graph_agent.record.tables import decision_logs, reports_table, tool_invocation_logs
from graph_agent.record.tamper.verify import verify_decision
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.tree.leaves import Sealer, insert_leaf_row
from graph_agent.record.tree.reading import read_head
from graph_agent.record.tree.service import RecordTree, TreeSealer
from graph_agent.record.tree.tables import (
    LeafKind,
    record_leaves,
    record_pending,
    tree_cosignatures,
    tree_head,
    tree_leaves,
    tree_nodes,
)
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.note import KeyType, SigningKey
from tests.record.trees import KEY, LOG_KEY, LogFiller, found, running_witness, tree_of, verified

OPERATIONS = Path(__file__).parents[2] / "docs" / "postgresql.md"
INSERTED = {"tree_leaves": "n", "tree_nodes": "n", "tree_cosignatures": "size", "tree_statements": "text"}


async def run(log: Database, *statements: Any) -> None:
    def execute_all(connection: Any) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON").close()
        for statement in statements:
            connection.execute(statement)

    await log.write(execute_all)


@pytest.fixture
async def names(log: Database) -> list[str]:
    """The decisions of a log of five, all in the tree."""
    names = await LogFiller.on(log).fill(5)
    assert await tree_of(log).seal() == 5
    return names


async def test_an_unchanged_log_is_intact_and_says_that_no_witness_has_seen_it(log: Database) -> None:
    await LogFiller.on(log).fill(3)
    before = await verified(log)
    assert (before.intact, before.records, before.size, before.waiting) == (True, 0, 0, 3)
    assert await tree_of(log).seal() == 3
    after = await verified(log)
    assert (after.intact, after.records, after.size, after.waiting, after.anchors) == (True, 3, 3, 0, [])
    # Nothing waits: nothing is signed or written.
    note = await log.read(lambda connection: connection.scalar(select(tree_head.c.note)))
    assert await tree_of(log).seal() == 0
    assert await log.read(lambda connection: connection.scalar(select(tree_head.c.note))) == note


async def test_every_single_changed_character_of_a_record_is_found_and_named(log: Database, names: list[str]) -> None:
    row = decision_logs.c.decision_id == names[0]
    stored = await log.read(lambda connection: connection.execute(select(decision_logs.c.record).where(row)).scalar_one())
    for position in range(0, len(stored), max(1, len(stored) // 30)):
        changed = stored[:position] + ("x" if stored[position] != "x" else "y") + stored[position + 1 :]
        await run(log, update(decision_logs).where(row).values(record=changed))
        assert (ViolationKind.EDITED, names[0]) in found(await verified(log)), position
        tree = tree_of(log)
        assert await verify_decision(log, names[0], keys=tree.keys, key=KEY) != []
    await run(log, update(decision_logs).where(row).values(record=stored))
    assert (await verified(log)).intact


async def test_what_was_added_by_hand_is_never_sealed(log: Database, names: list[str]) -> None:
    row = {"kind": LeafKind.DECISION, "item": "forged", "commitment": bytes(32), "mac": "0" * 64}
    await run(log, insert(record_pending).values(**row))
    assert await tree_of(log).seal() == 0
    await LogFiller.on(log).fill(0)
    assert (await verified(log)).size == len(names)


async def test_a_copy_of_a_sealed_pending_row_is_not_sealed_again(log: Database) -> None:
    await LogFiller.on(log).fill(2)
    columns = [column for column in record_pending.columns if column.name != "number"]
    rows = await log.read(lambda connection: [dict(row) for row in connection.execute(select(*columns)).mappings()])
    await tree_of(log).seal()
    await run(log, insert(record_pending).values(rows))
    assert await tree_of(log).seal() == 0
    assert (await verified(log)).size == 2


async def test_a_row_that_waits_is_checked_too(log: Database) -> None:
    names = await LogFiller.on(log).fill(2)
    await run(log, update(decision_logs).where(decision_logs.c.decision_id == names[0]).values(record="{}"))
    assert found(await verified(log)) == [(ViolationKind.EDITED, names[0])]
    of_one = [await verify_decision(log, name, keys=tree_of(log).keys, key=KEY) for name in names]
    assert [[violation.kind for violation in violations] for violations in of_one] == [[ViolationKind.EDITED], []]


async def test_many_leaves_have_their_nodes_and_each_is_checked(log: Database) -> None:
    [name] = await LogFiller.on(log).fill(1)
    tree = tree_of(log)
    await tree.seal()
    await append_reports(log, 700)
    assert await tree.seal() == 701
    assert await log.read(lambda connection: connection.scalar(select(func.count()).select_from(tree_nodes))) == 2
    report = await verified(log)
    assert (report.violations, report.size, report.records) == ([], 701, 1)
    await run(log, update(tree_nodes).where(tree_nodes.c.n == 1).values(hash=bytes(32)))
    assert [violation.kind for violation in (await verified(log)).violations] == [ViolationKind.EDITED]
    assert name


async def append_reports(log: Database, count: int) -> None:
    """Add rows that are leaves of the tree, faster than turns."""

    def add_reports(connection: Any) -> None:
        for number in range(count):
            row = {
                "report_id": f"report {number}",
                "kind": "drift",
                "created_at": ManualClock().now(),
                "passed": True,
                "report": {},
            }
            insert_leaf_row(connection, LeafKind.REPORT, reports_table, row, Sealer(KEY))

    await log.write(add_reports)


async def test_a_rollback_is_found_by_the_file_beside_the_key_and_nothing_is_signed(sqlite_url: str, tmp_path: Path) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    log = created(sqlite_url)
    tree = tree_of(log, head=tmp_path / "log.head")
    await LogFiller.on(log).fill(2)
    await tree.seal()
    log.close_now()
    shutil.copy(file, tmp_path / "yesterday")
    log = Database.open(sqlite_url)
    await append_reports(log, 1)
    await tree_of(log, head=tmp_path / "log.head").seal()
    log.close_now()
    shutil.copy(tmp_path / "yesterday", file)

    log = Database.open(sqlite_url)
    assert (await verified(log)).intact  # nothing inside the database shows it
    after = tree_of(log, head=tmp_path / "log.head")
    assert "rolled back" in (await verified(log, after)).violations[0].text
    await append_reports(log, 1)
    for compare in (after.seal, after.require_continuation):
        assert not after.is_rolled_back
        with pytest.raises(RecordRolledBackError, match="log fork"):
            await compare()
        assert after.is_rolled_back
        after.is_rolled_back = False
    lost = await after.fork("restored the copy of yesterday")
    assert (lost.origin, lost.size) == ("tasks.example/log", 3)
    report = await verified(log, tree_of(log, head=tmp_path / "log.head"))
    assert (report.violations, report.forks, report.size) == ([], ["restored the copy of yesterday"], 4)
    assert await after.origin() == "tasks.example/log/fork-2"
    with pytest.raises(RecordRolledBackError, match="nothing to fork"):
        await after.fork("again")
    log.close_now()


async def test_a_database_that_is_put_back_while_the_process_runs_is_found(log: Database) -> None:
    tree = tree_of(log)
    await LogFiller.on(log).fill(3)
    await tree.seal()
    tables = (tree_head, tree_leaves, record_leaves, tool_invocation_logs, decision_logs)
    await run(log, *(delete(table) for table in tables))
    with pytest.raises(RecordRolledBackError):
        await tree.require_continuation()
    await append_reports(log, 1)
    with pytest.raises(RecordRolledBackError):
        await tree.seal()


async def test_a_witness_finds_a_rollback_a_reset_and_with_the_keys_a_fork(log: Database, tmp_path: Path) -> None:
    async with running_witness(tmp_path) as witness:
        tree = tree_of(log, witnesses=[witness])
        await LogFiller.on(log).fill(3)
        await tree.seal()
        assert await tree.push() == 1
        assert await tree.push() == 0
        report = await verified(log, tree)
        assert (report.violations, [(anchor.name, anchor.size) for anchor in report.anchors]) == (
            [],
            [("auditor.example/w1", 3)],
        )
        # Every table is reset.
        tables = (tree_head, tree_leaves, record_leaves, tree_cosignatures, tool_invocation_logs, decision_logs)
        await run(log, *(delete(table) for table in tables))
        [violation] = (await verified(log, tree_of(log, witnesses=[witness]))).violations
        assert "auditor.example/w1 has seen 3 leaves" in violation.text
        with pytest.raises(RecordRolledBackError):
            await append_and_seal(log, witness)
        # With the keys another log of the same size can be signed; the witness does not cosign it.
        forged = tree_of(log)
        await append_reports(log, 4)
        await forged.seal()
        with_witness = tree_of(log, witnesses=[witness])
        assert await with_witness.push() == 0
        assert "rewritten" in (await verified(log, with_witness)).violations[0].text


async def append_and_seal(log: Database, witness: Any) -> None:
    await append_reports(log, 1)
    try:
        await tree_of(log, witnesses=[witness]).seal()
    finally:
        await run(log, delete(record_pending), text("DELETE FROM reports"))


async def test_a_witness_that_was_behind_or_is_new_gets_the_proof_that_it_needs(log: Database, tmp_path: Path) -> None:
    async with running_witness(tmp_path) as witness:
        for _ in range(2):
            await append_reports(log, 300) if _ == 0 else await LogFiller.on(log).fill(2)
            # Another process each time: it does not know what the witness has seen.
            tree = tree_of(log, witnesses=[witness])
            await tree.seal()
            assert await tree.push() == 1
        report = await verified(log, tree)
        assert [anchor.size for anchor in report.anchors] == [302]
        assert await log.read(lambda connection: connection.scalar(select(func.count()).select_from(tree_cosignatures))) == 2


async def test_a_witness_that_does_not_answer_is_no_anchor_and_stops_nothing(log: Database, tmp_path: Path) -> None:
    async with running_witness(tmp_path) as witness:
        pass
    tree = tree_of(log, witnesses=[witness])
    await LogFiller.on(log).fill(1)
    assert await tree.seal() == 1
    assert await tree.push() == 0
    assert (await verified(log, tree)).anchors == []


@pytest.mark.postgresql
async def test_four_writers_and_three_sealers_put_every_decision_into_the_tree_once(fresh_postgresql_url: str) -> None:
    databases = [created(fresh_postgresql_url, create=n == 0) for n in range(7)]
    sealing = True

    async def seal(database: Database) -> None:
        tree = tree_of(database)
        while sealing:
            await tree.seal()

    sealers = [asyncio.create_task(seal(database)) for database in databases[4:]]
    names = await asyncio.gather(*(fill_with_random_ids(database) for database in databases[:4]))
    sealing = False
    await asyncio.gather(*sealers)
    await tree_of(databases[0]).seal()
    report = await verified(databases[0])
    assert (report.violations, report.records, report.size, report.waiting) == ([], 40, 40, 0)
    assert len({name for part in names for name in part}) == 40
    for database in databases:
        await database.close()


async def fill_with_random_ids(database: Database) -> list[str]:
    return await LogFiller(DatabaseAuditWriter(database, record_key=KEY), RandomIds()).fill(10)


@pytest.mark.postgresql
async def test_the_first_seal_with_a_new_key_waits_for_a_process_that_seals_with_the_old_one(fresh_postgresql_url: str) -> None:
    log, other = created(fresh_postgresql_url), created(fresh_postgresql_url, create=False)
    await LogFiller.on(log).fill(1)
    await tree_of(log).seal()
    outdated = TreeSealer(LogKeys([LOG_KEY]), Sealer(KEY), clock=ManualClock())
    began, end = threading.Event(), threading.Event()

    def seal_slowly(connection: Connection) -> None:
        outdated.seal(connection)
        began.set()
        end.wait()

    sealing = asyncio.create_task(other.write(seal_slowly))
    await asyncio.to_thread(began.wait)
    new = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)
    rotating = asyncio.create_task(RecordTree(log, LogKeys([new, LOG_KEY]), key=KEY, clock=ManualClock()).seal())
    done, _ = await asyncio.wait({rotating}, timeout=0.3)
    end.set()
    await sealing
    assert (done, await rotating) == (set(), 2)
    for database in (log, other):
        await database.close()


def created(url: str, *, create: bool = True) -> Database:
    database = Database.open(url)
    if create:
        database.write_now(tree_leaves.metadata.create_all)
    return database


async def test_the_head_is_the_signed_one(log: Database, names: list[str]) -> None:
    head = await log.read(read_head)
    assert head is not None
    checkpoint = tree_of(log).keys.open(head.note)
    assert (checkpoint.origin, checkpoint.size, checkpoint.root) == ("tasks.example/log", len(names), head.frontier.root())


async def test_a_process_that_dies_before_the_commit_of_a_seal_leaves_everything_to_the_next(log: Database) -> None:
    tree = tree_of(log)
    await LogFiller.on(log).fill(2)
    await tree.seal()
    await append_reports(log, 3)
    sealer = TreeSealer(tree.keys, Sealer(KEY), clock=ManualClock())

    def die(connection: Any) -> None:
        assert sealer.seal(connection) is not None
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await log.write(die)
    report = await verified(log)
    assert (report.violations, report.size, report.waiting) == ([], 2, 3)
    # The process that only lost its connection goes on, and so does another one.
    for one in (tree, tree_of(log)):
        await one.seal()
    report = await verified(log)
    assert (report.violations, report.size, report.waiting) == ([], 5, 0)


@pytest.mark.postgresql
async def test_the_documented_rights_let_a_server_append_and_change_nothing(fresh_postgresql_url: str) -> None:
    log = created(fresh_postgresql_url)
    grants = re.findall(r"^- `((?:GRANT|REVOKE) [^`]*)`$", OPERATIONS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(grants) == 4
    schema = await log.read(lambda connection: connection.exec_driver_sql("SELECT current_schema()").scalar_one())
    role = f"agent_{schema}"
    statements = "".join(grants).replace("SCHEMA public", f"SCHEMA {schema}").replace("agent;", f"{role};")
    await LogFiller.on(log).fill(2)
    await tree_of(log).seal()
    await append_reports(log, 1)
    await run(log, text(f"CREATE ROLE {role}"), text(f"GRANT USAGE ON SCHEMA {schema} TO {role}"))
    await run(log, *map(text, filter(str.strip, statements.split(";"))))

    def as_server(*statements: str) -> Callable[[Any], Any]:
        def seal_as_role(connection: Any) -> Any:
            connection.exec_driver_sql(f"SET LOCAL ROLE {role}").close()
            for statement in statements:
                connection.exec_driver_sql(statement).close()
            return TreeSealer(tree_of(log).keys, Sealer(KEY), clock=ManualClock()).seal(connection)

        return seal_as_role

    checkpoint = await log.write(as_server())
    assert checkpoint.size == 3
    for table in ("tree_leaves", "tree_nodes", "tree_cosignatures", "tree_statements"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {INSERTED[table]} = {INSERTED[table]}"):
            with pytest.raises(ProgrammingError, match="permission denied"):
                await log.write(as_server(statement))
    with pytest.raises(ProgrammingError, match="permission denied"):
        await log.write(as_server("DELETE FROM tree_head"))
    assert (await verified(log)).intact
    await log.close()
