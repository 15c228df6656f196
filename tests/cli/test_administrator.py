"""What an administrator can do who has all rights on the databases but no keys, and what `log verify` says about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, column, create_engine, delete, insert, select, table, text, update
from sqlalchemy.exc import IntegrityError

from graph_agent.bootstrap.maintenance import verify_installation
from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.bootstrap.secret import record_keys
from graph_agent.chat.conversations.tables import metadata as conversations_metadata
from graph_agent.cli.verification import print_report
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.record.tables import metadata as record_metadata
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind
from graph_agent.record.tree.leaves import commitment, leaf_entry
from graph_agent.record.tree.tables import tree_head, tree_leaves
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings, read_settings
from graph_agent.task_server.store import metadata as tasks_metadata
from graph_agent.tlog.merkle import Frontier, leaf_hash
from tests.cli.conftest import Cli
from tests.cli.test_transparency import key_of, witness_in_thread
from tests.cli.test_verify import UNANCHORED
from tests.record.trees import LogFiller

EDITED, REMOVED, ADDED = ViolationKind.EDITED, ViolationKind.REMOVED, ViolationKind.ADDED
PROJECTION, EFFECT, TEXT = ViolationKind.PROJECTION, ViolationKind.EFFECT, ViolationKind.TEXT
FORGED = "00000000-0000-0000-0000-000000000000"

Step = str | Callable[["Installation", Connection], None]
Copy = Mapping[str, list[dict[str, Any]]]
"""The rows of all tables."""

IDS = (
    ("decision_logs", "decision_id"),
    ("tool_invocation_logs", "decision_id"),
    ("turns", "id"),
)
_TABLES = [
    table(one.name, *(column(each.name) for each in one.columns))
    for metadata in (record_metadata, conversations_metadata, tasks_metadata)
    for one in metadata.sorted_tables
]


@dataclass(frozen=True)
class Installation:
    """A home with its database: what the administrator changes, and what the owner of the keys verifies."""

    settings: Settings
    database: Database
    engine: Engine
    decisions: Mapping[str, str]
    yesterday: Copy

    def copy(self) -> Copy:
        with self.connected() as connection:
            return {one.name: [dict(row) for row in connection.execute(select(one)).mappings()] for one in _TABLES}

    def put_back(self, copy: Copy) -> None:
        with self.connected() as connection:
            put_back(connection, copy)

    def do(self, *steps: Step) -> None:
        with self.connected() as connection:
            for step in steps:
                if isinstance(step, str):
                    connection.execute(text(step.format(**self.decisions)))
                else:
                    step(self, connection)

    async def verified(self, *, offline: bool) -> VerifyReport:
        tree = record_tree(self.settings, self.database, SystemClock())
        return await verify_installation(self.database, tree, reads=self.database, shipped_tools=True, offline=offline)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # The constraints of the tables are no obstacle to an administrator.
            superuser = {"sqlite": "PRAGMA ignore_check_constraints=ON", "postgresql": "SET session_replication_role=replica"}
            connection.exec_driver_sql(superuser[connection.dialect.name])
            yield connection


def put_back(connection: Connection, copy: Copy, *names: str) -> None:
    for one in reversed(_TABLES):
        if not names or one.name in names:
            connection.execute(delete(one))
    for one in _TABLES:
        if (not names or one.name in names) and copy[one.name]:
            connection.execute(insert(one), copy[one.name])


@pytest.fixture
def installation(
    cli: Cli, home: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """Ann and Bob have changed and read tasks, Eve was erased, one decision waits for the tree, and a witness has seen it."""
    monkeypatch.setenv("DATABASE_URL", database_url)

    def ask(user: str, message: str) -> str:
        decision: str = cli("ask", "--user", user, message, "--json").json()["decision_id"]
        return decision

    decisions = {"eve": ask("eve", "add a task to buy a lamp"), "ann": ask("ann", "add a task to call mom")}
    assert cli("log", "erase", "--user", "eve", "--reason", "request 7", "--yes").code == 0
    assert cli("log", "rotate").code == 0
    decisions |= {"bob": ask("bob", "add a task to feed the cat")}
    settings, engine, database = read_settings(), create_engine(database_url), Database.open(database_url)
    yesterday = Installation(settings, database, engine, {}, {}).copy()
    with witness_in_thread(tmp_path, key_of(home)) as witness:
        assert cli("log", "witness", "add", witness.url, str(witness.key)).code == 0
        decisions |= {"ann_reads": ask("ann", "show my tasks"), "last": ask("bob", "add a task to water the plants")}
        assert cli("log", "export", "--proof", decisions["last"], "--out", str(tmp_path / "proof")).code == 0
        writer = DatabaseAuditWriter(database, record_key=record_keys(settings))
        [waiting] = asyncio.run(LogFiller(writer, RandomIds()).fill(1))
        # The administrator has the home, too, but for the keys.
        for head in settings.home.glob("log*.head"):
            head.unlink()
        yield Installation(read_settings(), database, engine, {**decisions, "waiting": waiting}, yesterday)
    database.close_now()
    engine.dispose()


def without_calls(name: str) -> tuple[str, ...]:
    """Delete a decision and everything that is stored of it in the record."""
    return tuple(f"DELETE FROM {one} WHERE decision_id = '{{{name}}}'" for one, _ in reversed(IDS[:2]))


def exchanged(one: str, name: str, a: str, b: str) -> str:
    """Exchange two values of a column."""
    return f"UPDATE {one} SET {name} = CASE {name} WHEN {a} THEN {b} ELSE {a} END WHERE {name} IN ({a}, {b})"


def moved(one: str, name: str, a: str, b: str) -> tuple[str, ...]:
    """Exchange two values of a column that is unique."""
    between = "77" if a.isdigit() else "'moved'"
    return tuple(f"UPDATE {one} SET {name} = {new} WHERE {name} = {old}" for old, new in ((a, between), (b, a), (between, b)))


def copied(one: str, where: str, **changed: str) -> str:
    """Insert a copy of the rows of a table that match, with other values in some columns."""
    names = [each.name for each in next(each for each in _TABLES if each.name == one).columns if each.name not in changed]
    into = ", ".join([*names, *changed])
    return f"INSERT INTO {one} ({into}) SELECT {', '.join([*names, *changed.values()])} FROM {one} WHERE {where}"


def recomputed(installation: Installation, connection: Connection) -> None:
    """Write a leaf for the record as it is now, and the frontier of the tree that follows from the leaves."""
    ann = installation.decisions["ann"]
    row = connection.execute(text("SELECT record, salt FROM decision_logs WHERE decision_id = :ann"), {"ann": ann}).one()
    connection.execute(update(tree_leaves).where(tree_leaves.c.n == 1).values(commitment=commitment(row.salt, row.record)))
    refrontiered(installation, connection)


def refrontiered(_: Installation, connection: Connection) -> None:
    """Write the frontier that follows from the leaves. Only the owner of the key can sign it."""
    tree = Frontier()
    for leaf in connection.execute(select(tree_leaves.c.kind, tree_leaves.c.commitment).order_by(tree_leaves.c.n)):
        tree.push(leaf_hash(leaf_entry(*leaf)))
    connection.execute(update(tree_head).values(size=tree.size, frontier=b"".join(tree.hashes)))


def yesterday(*names: str) -> Step:
    """Put back yesterday's rows of some tables, or of all."""
    return lambda installation, connection: put_back(connection, installation.yesterday, *names)


RECORD = tuple(one.name for one in record_metadata.sorted_tables)
USERS = ("decision_logs", "conversations", "turns", "operations", "tasks", "call_operations")
OF_ANN = "decision_id = '{ann}'"
EDIT_RECORD = f"UPDATE decision_logs SET record = replace(record, 'mom', 'dad') WHERE {OF_ANN}"
SWAP_COLUMNS = tuple(exchanged(one, "user_id", "'ann'", "'bob'") for one in USERS)
SWAP_DECISIONS = tuple(step for one, name in IDS for step in moved(one, name, "'{ann}'", "'{bob}'"))
SWAP_LEAVES, SWAP_PLACES = moved("tree_leaves", "n", "1", "3"), moved("record_leaves", "n", "1", "3")
SWAP_BOTH: tuple[Step, ...] = (*SWAP_LEAVES, *SWAP_PLACES)
SWAP_KINDS = tuple(exchanged(one, "kind", "'decision'", "'statement'") for one in ("tree_leaves", "record_leaves"))
SWAP_TEXTS = tuple(
    f"UPDATE decision_logs SET {name} = replace({name}, '\"{old}\"', '\"{new}\"')"
    for name in ("record", "header")
    for old, new in (("ann", "x"), ("bob", "ann"), ("x", "bob"))
)
COPY = copied("decision_logs", OF_ANN, decision_id="'forged'")
COPIED_PLACE, COPIED_LEAF = copied("record_leaves", "n = 1", n="6", item="'forged'"), copied("tree_leaves", "n = 1", n="6")
TEXTS = ("record", "header", "message", "extracted_params", "response_text")
NO_END = (*without_calls("last"), "DELETE FROM record_leaves WHERE n = 5", "DELETE FROM tree_leaves WHERE n = 5")

Found = set[ViolationKind]
ATTACKS: dict[str, tuple[tuple[Step, ...], Found] | tuple[tuple[Step, ...], Found, Found]] = {
    "nothing": ((), set()),
    # Edits.
    "edit a column": ((f"UPDATE decision_logs SET message = 'hi' WHERE {OF_ANN}",), {PROJECTION}),
    "edit a record": ((EDIT_RECORD,), {EDITED, PROJECTION}),
    "edit a record and its columns": (
        tuple(f"UPDATE decision_logs SET {name} = replace({name}, 'mom', 'dad') WHERE {OF_ANN}" for name in TEXTS),
        {EDITED, PROJECTION},
    ),
    "edit a record, its leaf and the tree to fit": ((EDIT_RECORD, recomputed), {EDITED, PROJECTION}),
    "edit a call": ((f"UPDATE tool_invocation_logs SET success = NOT success WHERE {OF_ANN}",), {PROJECTION}),
    "edit a record that waits": (
        ("UPDATE decision_logs SET record = replace(record, 'hello', 'bye') WHERE decision_id = '{waiting}'",),
        {EDITED},
    ),
    "edit a pending row": (("UPDATE record_pending SET item = '{ann}'",), {ADDED}),
    "edit a statement": (("UPDATE tree_statements SET text = replace(text, 'key', 'pruned')",), {EDITED}),
    "edit a noted removal": (("UPDATE record_removals SET facts = replace(facts, '[0,1]', '[0,2]')",), {ADDED, REMOVED}),
    "edit a noted removal so that it cannot be read": (("UPDATE record_removals SET facts = '{{'",), {ADDED, REMOVED}),
    "edit a shared text": (("UPDATE record_blobs SET text = 'x'",), {TEXT}),
    "edit a message": (("UPDATE messages SET content = 'No tasks.' WHERE decision_id = '{ann_reads}'",), {PROJECTION}),
    "edit the stored answer of a turn": (("UPDATE turns SET answer = replace(answer, 'mom', 'dad')",), {PROJECTION}),
    "edit the cosignature": (("UPDATE tree_cosignatures SET line = replace(line, 'A', 'B')",), {EDITED}),
    "delete the salts": (("UPDATE decision_logs SET salt = NULL",), {EDITED}),
    "exchange two salts": (
        (
            exchanged(
                "decision_logs",
                "salt",
                *(f"(SELECT salt FROM decision_logs WHERE decision_id = '{{{name}}}')" for name in ("ann", "bob")),
            ),
        ),
        {EDITED},
    ),
    # Removals.
    "delete a record": (without_calls("ann"), {REMOVED}),
    "delete a record with its place": ((*without_calls("ann"), "DELETE FROM record_leaves WHERE n = 1"), {REMOVED}),
    "delete a record with its leaf": (
        (*without_calls("ann"), "DELETE FROM record_leaves WHERE n = 1", "DELETE FROM tree_leaves WHERE n = 1"),
        {REMOVED, EDITED},
    ),
    "delete a call": ((f"DELETE FROM tool_invocation_logs WHERE {OF_ANN}",), {PROJECTION}),
    "delete a shared text": (("DELETE FROM record_blobs",), {TEXT}),
    "delete a record that waits": (without_calls("waiting"), {EDITED}),
    "delete the pending rows": (("DELETE FROM record_pending",), {ADDED}),
    "delete a statement": (("DELETE FROM tree_statements",), {REMOVED}),
    "delete a statement with its place": (("DELETE FROM tree_statements", "DELETE FROM record_leaves WHERE n = 2"), {REMOVED}),
    "delete the noted removals": (("DELETE FROM record_removals",), {REMOVED}),
    "delete the head": (("DELETE FROM tree_head",), {ADDED, REMOVED}, {ADDED}),
    "edit the amounts of a call": (("UPDATE call_operations SET amounts = '{{}}'",), {PROJECTION}),
    "void the operation of a call": (("UPDATE call_operations SET state = 'void'",), {PROJECTION}),
    "delete the operation of a call": ((f"DELETE FROM call_operations WHERE {OF_ANN}",), {PROJECTION}),
    "insert the operation of a call": ((copied("call_operations", OF_ANN, sequence="99"),), {PROJECTION}),
    "insert the operation of no decision": ((copied("call_operations", OF_ANN, decision_id="'forged'"),), {PROJECTION}),
    "delete an operation": (("DELETE FROM operations WHERE user_id = 'ann'",), {EFFECT}),
    "void an operation": (("UPDATE operations SET state = 'VOID', result = NULL",), {EFFECT}),
    # Additions.
    "insert a decision": ((COPY,), {ADDED}),
    "insert a decision with a place": ((COPY, COPIED_PLACE), {ADDED}),
    "insert a decision with a leaf": ((COPY, COPIED_PLACE, COPIED_LEAF), {ADDED}),
    "insert a decision with a leaf and the tree to fit": (
        (COPY, COPIED_PLACE, COPIED_LEAF, refrontiered),
        {ADDED, EDITED, PROJECTION},
    ),
    "insert an open decision": (
        (copied("decision_logs", OF_ANN, decision_id="'forged'", status="'PENDING'", record="NULL"),),
        {ADDED},
    ),
    "give a decision another id": (
        (
            *(f"UPDATE {one} SET {name} = 'forged' WHERE {name} = '{{ann}}'" for one, name in IDS[:2]),
            "UPDATE record_leaves SET item = 'forged' WHERE n = 1",
        ),
        {EFFECT, PROJECTION, REMOVED},
    ),
    "insert a call": ((copied("tool_invocation_logs", f"{OF_ANN} AND sequence = 1", sequence="99"),), {EFFECT, PROJECTION}),
    "insert a call of no decision": ((copied("tool_invocation_logs", OF_ANN, decision_id="'forged'"),), {ADDED}),
    "insert a leaf": ((COPIED_LEAF,), {ADDED}),
    "insert a pending row": ((copied("record_pending", "1 = 1", number="99", item="'forged'"),), {ADDED}),
    "copy a pending row": ((copied("record_pending", "1 = 1", number="99"),), {ADDED}),
    "insert a statement": ((copied("tree_statements", "1 = 1", statement_id="'forged'"),), {ADDED}),
    "replace a record by a statement that it was erased": (
        (
            *without_calls("ann"),
            copied("tree_statements", "1 = 1", statement_id="'forged'"),
            "UPDATE tree_statements SET text = replace(text, 'key', 'erased') WHERE statement_id = 'forged'",
            "UPDATE record_leaves SET kind = 'statement', item = 'forged' WHERE n = 1",
        ),
        {ADDED, REMOVED},
    ),
    "replace a record by a noted removal": (
        (
            *without_calls("ann"),
            "DELETE FROM record_leaves WHERE n = 1",
            copied("record_removals", "1 = 1", number="99", facts="replace(facts, '[0,1]', '[1,2]')"),
        ),
        {ADDED, REMOVED},
    ),
    "insert an operation": ((copied("operations", "user_id = 'ann'", key=f"'{FORGED}:1'"),), {REMOVED}),
    "insert an operation of a decision": ((copied("operations", "user_id = 'ann'", key="'{ann_reads}:1'"),), {PROJECTION}),
    "insert a turn": ((copied("turns", "id = '{ann}'", id=f"'{FORGED}'", idem_key="NULL"),), {REMOVED}),
    "insert a cosignature": ((copied("tree_cosignatures", "1 = 1", size="99"),), {EDITED}),
    # Order.
    "reorder two leaves": (SWAP_LEAVES, {EDITED}),
    "reorder two leaves and their places": (SWAP_BOTH, {EDITED}),
    "reorder two leaves, their places and the tree to fit": ((*SWAP_BOTH, refrontiered), {EDITED}),
    "exchange two places": (SWAP_PLACES, {EDITED}),
    "exchange the kinds of leaves": (SWAP_KINDS[:1], {ADDED, EDITED, REMOVED}),
    "exchange the kinds of leaves and places": (SWAP_KINDS, {ADDED, EDITED, REMOVED}),
    # Users.
    "exchange the users of rows": (SWAP_COLUMNS[:1], {PROJECTION}),
    "exchange the users of everything": (SWAP_COLUMNS, {PROJECTION}),
    "exchange the users of everything, in the records too": ((*SWAP_COLUMNS, *SWAP_TEXTS), {EDITED, PROJECTION}),
    "exchange the users of turns and conversations": (SWAP_COLUMNS[1:3], {PROJECTION}),
    "exchange the users of conversations": (SWAP_COLUMNS[1:2], {PROJECTION}),
    "exchange the users of operations": (SWAP_COLUMNS[3:4], {PROJECTION}),
    "exchange the decisions of two users": (SWAP_DECISIONS, {EDITED, PROJECTION}),
    "exchange the decisions of two users and their places": ((*SWAP_DECISIONS, *SWAP_PLACES), {PROJECTION}),
    # The end, and older copies.
    "remove the end": (NO_END, {REMOVED, EDITED}),
    "put back the leaves": ((yesterday("tree_leaves"),), {ADDED, EDITED, REMOVED}),
    "put back the head": ((yesterday("tree_head"),), {ADDED, REMOVED}, {ADDED}),
    "put back the decisions": ((yesterday(*(name for name, _ in IDS[:2])),), {EDITED, REMOVED}),
    "put back the places": ((yesterday("record_leaves"),), {ADDED, REMOVED}),
    "put back the operations": ((yesterday("operations"),), {EFFECT}),
    "put back the record": ((yesterday(*RECORD),), {REMOVED}),
    "put back everything": ((yesterday(),), {REMOVED}, set()),
    "reset the record": (tuple(f"DELETE FROM {name}" for name in RECORD), {REMOVED}),
    "reset everything": (tuple(f"DELETE FROM {one.name}" for one in _TABLES), {REMOVED}, set()),
}
"""What is done -> what `log verify` finds with a witness, and what without one (if that is something else)."""


@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.nightly])], indirect=True
)
async def test_what_an_administrator_does_is_found_with_a_witness_and_without_one_the_verdict_says_what_it_cannot_know(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    today, anchor = installation.copy(), "; witnessed until "
    expected = {name: (found, *(alone or (found,))) for name, (_, found, *alone) in ATTACKS.items()}
    verdicts = {}
    for name, (steps, *_) in ATTACKS.items():
        installation.do(*steps)
        reports = [await installation.verified(offline=offline) for offline in (False, True)]
        installation.put_back(today)
        verdicts[name] = tuple({violation.kind for violation in report.violations} for report in reports)
        capsys.readouterr()
        print_report(reports[1])
        assert capsys.readouterr().out.endswith(f"; {UNANCHORED}\n"), name
        if reports[0].intact:
            print_report(reports[0])
            assert anchor in capsys.readouterr().out, name
    assert verdicts == expected


NOT_COMPARED = {
    "conversations": "created_at title updated_at",
    "decision_logs": "opening_seal",  # of a closed decision
    "messages": "approval authors calls confirmed created_at decision_id decision_type effects id in_card notices question_id",
    "operations": "request_digest result",
    "record_blobs": "first_used_at last_used_at",
    "record_removals": "removed_at",
    "rule_activations": "host made_by reason",
    "turns": "attempt body_digest idem_key lease_until owner state stopped",
}
"""The columns that `log verify` does not compare, see docs/verify.md; and of these tables all of them:"""
WHOLE_TABLES = {"tasks", "turn_limits"}


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_value_of_any_type_in_any_column_is_found_and_stops_nothing(installation: Installation) -> None:
    today, not_found = installation.copy(), set()
    for one in _TABLES:
        for each in one.columns if today[one.name] and one.name not in WHOLE_TABLES else ():
            for value in ("garbage", b"garbage"):
                row = today[one.name][0]
                key = [each == row[each.name] for each in one.columns if row[each.name] is not None]
                with installation.connected() as connection, suppress(IntegrityError):
                    # A number column that is a key of SQLite takes numbers only.
                    connection.execute(update(one).where(*key).values({each.name: value}))
                    if (await installation.verified(offline=True)).intact:
                        not_found.add((one.name, each.name))
                installation.put_back(today)
    assert not_found == {(name, each) for name, columns in NOT_COMPARED.items() for each in columns.split()}
