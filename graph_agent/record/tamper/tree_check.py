"""The check of the tree, in parts that any process can check by itself.

Each leaf is compared with the row that it commits to, and each row of a decision with its record. A part is a range of whole
tiles; it needs no key and nothing from the other parts.

Rows are compared as the driver stores them. A column that cannot be decoded any more is then a difference like any other,
instead of an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import from_json
from sqlalchemy import Connection, Dialect, Select, Table, select, type_coerce
from sqlalchemy.types import NullType

from graph_agent.db import Database
from graph_agent.models.record import LATER_TEXTS, SNAPSHOT_TEXTS, EntryKind, OperationState
from graph_agent.record.projection import decision_columns, invocation_rows
from graph_agent.record.settlements import report_id
from graph_agent.record.statements import read
from graph_agent.record.tables import (
    call_operations,
    decision_logs,
    reports_table,
    tool_invocation_logs,
)
from graph_agent.record.tamper.operation_check import SettledOutcome, expected_operations
from graph_agent.record.tamper.violations import ViolationKind, ViolationList
from graph_agent.record.tree.leaves import columns_of, commitment, leaf_entry, row_text
from graph_agent.record.tree.reading import TILE, TreeHead, read_head
from graph_agent.record.tree.statements import Statement
from graph_agent.record.tree.tables import LeafKind, record_leaves, tree_leaves, tree_nodes, tree_statements
from graph_agent.tlog.merkle import fold, leaf_hash

read_all = partial(read, seconds=None)
"""Reads without a time limit: a verification ends when it has read everything, however large the log is."""
PART = 8 * TILE
"""Leaves of a part."""

Progress = Callable[[int, int], None]
"""Called with the number of checked leaves and the total."""

LEAF_TABLES: Mapping[str, Table] = {
    LeafKind.DECISION: decision_logs,
    LeafKind.REPORT: reports_table,
    LeafKind.SETTLEMENT: reports_table,
    LeafKind.STATEMENT: tree_statements,
}
"""The kind of a leaf -> the table with the rows that leaves of this kind commit to."""
_OF_DECISIONS = (tool_invocation_logs, call_operations)


class TreePart(NamedTuple):
    """The leaves [first, end); `first` is the start of a tile."""

    first: int
    end: int

    @property
    def name(self) -> str:
        """The name of a file for its result."""
        return f"leaves_{self.first}_{self.end}"


class TreeDivision(NamedTuple):
    """The head of the tree at one time, and the parts of its leaves."""

    head: TreeHead | None
    parts: list[TreePart]


@dataclass(frozen=True, slots=True)
class TreeJob:
    """The input with which a process checks parts: the URL of the log."""

    database_url: str = field(repr=False)


async def split_tree(database: Database, size: int = PART) -> TreeDivision:
    """Divide the tree as it is now into parts of `size` leaves, a multiple of `TILE`. Raises `ServiceError` STORAGE_ERROR.

    A head that was changed by hand has no parts.
    """
    try:
        head = await read_all(database, read_head)
    except ValueError:
        head = None
    end = 0 if head is None else head.frontier.size
    return TreeDivision(head, [TreePart(first, min(first + size, end)) for first in range(0, end, size)])


async def check_tree(database: Database, on_progress: Progress | None) -> CheckedTree:
    """Check the leaves of the whole tree, part by part. Raises `ServiceError` STORAGE_ERROR."""
    division, checked = await split_tree(database), []
    for part in division.parts:
        checked.append(await check_part(database, part))
        if on_progress is not None:
            on_progress(part.end, division.parts[-1].end)
    return CheckedTree(division.head, checked)


async def check_part(database: Database, part: TreePart) -> CheckedPart:
    """Check the leaves of one part. Raises `ServiceError` STORAGE_ERROR."""
    checked = CheckedPart()
    for first in range(part.first, part.end, TILE):
        end = min(first + TILE, part.end)
        checked.check_tile(await _read_section(database, first, end), first, end)
    return checked


async def check_leaf(database: Database, n: int) -> ViolationList:
    """Check the leaf at one position and what it commits to. Raises `ServiceError` STORAGE_ERROR."""
    checked = CheckedPart()
    checked.check_leaf(await _read_section(database, n, n + 1), n)
    return checked.violations


async def check_stored_part(job: TreeJob, part: TreePart) -> list[dict[str, Any]]:
    """Open the log and check one part; return its result as JSON."""
    database = Database.open(job.database_url)
    try:
        return [(await check_part(database, part)).model_dump(mode="json")]
    finally:
        await database.close()


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows that leaves commit to, by kind and id, with the rows of their decisions, all read in one transaction."""

    dialect: Dialect
    rows: Mapping[tuple[str, str], Any]
    of_decisions: Mapping[Table, Mapping[str, list[Any]]]
    settled: Mapping[str, SettledOutcome]
    """By the id of the settlement."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The leaves of one tile with all rows that belong to them, read in one transaction."""

    leaves: Mapping[int, Any]
    items: Mapping[int, tuple[str, str]]
    root: bytes | None
    stored: StoredRows


class CheckedPart(BaseModel):
    """The result of one part, to which each tile adds; hashes are in hex."""

    records: int = 0
    tiles: list[str] = Field(default_factory=list)
    """The roots of the full tiles."""
    rest: list[str] = Field(default_factory=list)
    """The hashes of the leaves after the last full tile."""
    missing: list[tuple[int, int]] = Field(default_factory=list)
    """The leaves whose rows were removed, as ranges without their ends: a statement has to say why."""
    statements: list[Statement] = Field(default_factory=list)
    texts: dict[str, str] = Field(default_factory=dict)
    """Digests of shared texts, each with one decision that references it."""
    rules: dict[str, str] = Field(default_factory=dict)
    """Digests of rule sets, as above."""
    drawn: dict[str, int] = Field(default_factory=dict)
    """The calls that records have under each plan, by its id."""
    counted: dict[str, dict[str, list[int]]] = Field(default_factory=dict)
    """The lines of those calls that may have had an effect, by plan and conversation."""
    violations: ViolationList = Field(default_factory=ViolationList)

    def check_tile(self, section: _Section, first: int, end: int) -> None:
        """Check the leaves [first, end) of one tile."""
        hashes = [self.check_leaf(section, n) for n in range(first, end)]
        if len(hashes) < TILE:
            self.rest += map(bytes.hex, hashes)
            return
        root = fold(hashes)
        self.tiles.append(root.hex())
        if section.root != root:
            text = f"the stored root of the leaves {first} to {end - 1} is not theirs"
            self.violations.add(ViolationKind.EDITED, text, n=first)

    def check_leaf(self, section: _Section, n: int) -> bytes:
        """Return the hash of the leaf at position `n`; of nothing if it is missing."""
        leaf = section.leaves.get(n)
        if leaf is None or not isinstance(leaf.commitment, bytes):
            self.violations.add(ViolationKind.REMOVED, f"leaf {n} is missing", n=n)
            return leaf_hash(b"")
        hashed = leaf_hash(leaf_entry(leaf.kind, leaf.commitment))
        kind, item = section.items.get(n, ("", ""))
        if kind != leaf.kind:
            if self.missing and self.missing[-1][1] == n:
                self.missing[-1] = (self.missing[-1][0], n + 1)
            else:
                self.missing.append((n, n + 1))
            return hashed
        row = section.stored.rows.get((kind, item))
        noun = f"the record of decision {item}" if kind == LeafKind.DECISION else f"the {kind} {item}"
        decision_id = item if kind == LeafKind.DECISION else None
        text = None if row is None else committed_text(kind, row)
        if row is None or text is None:
            self.violations.add(ViolationKind.REMOVED, f"{noun} is missing", decision_id=decision_id, n=n)
            return hashed
        if commitment(row.salt, text) != leaf.commitment:
            self.violations.add(
                ViolationKind.EDITED, f"{noun} is not the one in the tree (leaf {n})", decision_id=decision_id, n=n
            )
        elif kind == LeafKind.STATEMENT:
            self.statements.append(Statement.model_validate_json(text))
        if kind == LeafKind.DECISION:
            self.records += 1
            self.check_decision(section.stored, row)
        return hashed

    def check_decision(self, stored: StoredRows, row: Any) -> None:
        """Compare all rows of one decision with its record."""
        decision_id = row.decision_id
        found = {table: stored.of_decisions[table].get(decision_id, []) for table in _OF_DECISIONS}
        found[decision_logs] = [row]
        try:
            record = from_json(row.record)
            reserved = [one for one in record["entries"] if one["kind"] == EntryKind.RESERVE]
            draws = [(one["operation"], draw) for one in reserved if (draw := one["result"].get("mandate")) is not None]
            drawn = [draw["id"] for _, draw in draws]
            conversation_id = record["header"]["context"]["conversation_id"]
            expected = {
                # Not the text of the record, which the leaf commits to.
                decision_logs: [decision_columns(record)],
                tool_invocation_logs: invocation_rows(record),
            }
            if record["entries"] and record["entries"][0]["kind"] == EntryKind.INTERRUPT:
                # The turn could not be replayed over its own entries and was closed without them. The rows that it wrote
                # before are the only evidence of its calls, and no record covers them.
                known = {row["sequence"] for row in expected[tool_invocation_logs]}
                found[tool_invocation_logs] = [row for row in found[tool_invocation_logs] if row.sequence in known]
            else:
                expected[call_operations] = _operations(stored, record, found[call_operations])
            void = {row["sequence"] for row in expected.get(call_operations, ()) if row["state"] == OperationState.VOID}
            lines = [(draw["id"], draw["line"]) for number, draw in draws if number not in void]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            text = f"the record of decision {decision_id} cannot be read"
            self.violations.add(ViolationKind.EDITED, text, decision_id=decision_id)
            return
        header = record["header"]
        for name in (*SNAPSHOT_TEXTS, *LATER_TEXTS):
            if name in header:
                self.texts.setdefault(header[name], decision_id)
        if "rules" in header:
            self.rules.setdefault(header["rules"], decision_id)
        for mandate_id in drawn:
            self.drawn[mandate_id] = self.drawn.get(mandate_id, 0) + 1
        for mandate_id, number in lines:
            self.counted.setdefault(mandate_id, {}).setdefault(conversation_id, []).append(number)
        for table, rows in expected.items():
            for text in _row_differences(stored.dialect, table, rows, found[table]):
                self.violations.add(ViolationKind.PROJECTION, f"decision {decision_id}: {text}", decision_id=decision_id)


class CheckedTree(NamedTuple):
    """The head of the tree at one time, and the results of all parts of its leaves, in order."""

    head: TreeHead | None
    parts: Sequence[CheckedPart]


def _operations(stored: StoredRows, record: Mapping[str, Any], rows: Sequence[Any]) -> list[dict[str, Any]]:
    decision_id = record["header"]["decision_id"]
    settled = {row.sequence: stored.settled.get(report_id(decision_id, row.sequence)) for row in rows}
    known = {sequence: outcome for sequence, outcome in settled.items() if outcome is not None}
    return expected_operations(record, known, [row.sequence for row in rows])


def committed_text(kind: str, row: Any) -> str | None:
    """Return the text that the leaf of a raw row commits to; None if it is gone."""
    if kind == LeafKind.DECISION:
        return None if row.record is None else str(row.record)
    return str(row.text) if kind == LeafKind.STATEMENT else row_text(LEAF_TABLES[kind], row._mapping)


async def _read_section(database: Database, first: int, end: int) -> _Section:
    def read_rows_of_section(connection: Connection) -> _Section:
        within = (first, end - 1)
        leaves = connection.execute(select_raw(tree_leaves).where(tree_leaves.c.n.between(*within))).all()
        places = connection.execute(select_raw(record_leaves).where(record_leaves.c.n.between(*within))).all()
        # SQLite stores values of any type in any column.
        items = {place.n: (place.kind, place.item) for place in places if isinstance(place.item, str)}
        root = select(tree_nodes.c.hash).where(tree_nodes.c.level == 1, tree_nodes.c.n == first // TILE)
        return _Section(
            leaves={leaf.n: leaf for leaf in leaves},
            items=items,
            root=connection.scalar(root),
            stored=read_rows(connection, list(items.values())),
        )

    return await read_all(database, read_rows_of_section)


def read_rows(connection: Connection, items: Collection[tuple[str, str]]) -> StoredRows:
    """Return the rows of these kinds and ids, which are at most those of some leaves of one tile."""
    rows: dict[tuple[str, str], Any] = {}
    for kind, table in LEAF_TABLES.items():
        if ids := [item for of, item in items if of == kind]:
            found = select_raw(table).where(table.columns[0].in_(ids))
            rows |= {(kind, row[0]): row for row in connection.execute(found)}
    decisions = [item for kind, item in rows if kind == LeafKind.DECISION]
    of_decisions = {table: _rows_by_decision(connection, table, decisions) for table in _OF_DECISIONS}
    operations = [row for of_decision in of_decisions[call_operations].values() for row in of_decision]
    return StoredRows(connection.dialect, rows, of_decisions, _settled(connection, operations))


def _settled(connection: Connection, operations: Sequence[Any]) -> dict[str, SettledOutcome]:
    """Return the settlements of these operations by their ids. One that cannot be read is left out: its own leaf reports it."""
    ids = [report_id(row.decision_id, row.sequence) for row in operations]
    found: dict[str, SettledOutcome] = {}
    for row in connection.execute(select_raw(reports_table).where(reports_table.c.report_id.in_(ids))) if ids else ():
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            result = from_json(row.report)["result"]
            found[row.report_id] = SettledOutcome(result["success"], result.get("error_code"))
    return found


def select_raw(table: Table) -> Select[*tuple[Any, ...]]:
    """Return a SELECT of every column of `table` as the driver returns it, without SQLAlchemy's decoding."""
    return select(*(type_coerce(column, NullType()).label(column.name) for column in table.columns))


def _rows_by_decision(connection: Connection, table: Table, decision_ids: Sequence[str]) -> dict[str, list[Any]]:
    """Return the raw rows of `table` that belong to each of these decisions, in their sequence."""
    rows: dict[str, list[Any]] = {}
    query = select_raw(table).where(table.c.decision_id.in_(decision_ids))
    for row in connection.execute(query.order_by(table.c.decision_id, table.c.sequence)):
        rows.setdefault(row.decision_id, []).append(row)
    return rows


def _is_stored_as(found: Any, encode: Callable[[Any], Any], wanted: Any) -> bool:
    try:
        return bool(found == encode(wanted))
    except (AttributeError, LookupError, TypeError, ValueError):
        # A record that was changed by hand may have a value that no column takes.
        return False


def _row_differences(
    dialect: Dialect, table: Table, expected: Sequence[Mapping[str, Any]], stored: Sequence[Any]
) -> Iterator[str]:
    """Describe each difference between the rows of one decision that its record implies and those that `table` has."""
    layout = columns_of(dialect, table)
    expected_rows = {row.get("sequence"): row for row in expected}
    stored_rows = {row.sequence if "sequence" in table.columns else None: row for row in stored}
    for sequence in [*expected_rows, *(sequence for sequence in stored_rows if sequence not in expected_rows)]:
        name = table.name if sequence is None else f"{table.name} {sequence}"
        if sequence not in stored_rows:
            yield f"{name} is missing"
        elif sequence not in expected_rows:
            yield f"{name} is not in the record"
        else:
            found, wanted = stored_rows[sequence], expected_rows[sequence]
            for column, position, encode in layout:
                if column in wanted and not _is_stored_as(found[position], encode, wanted[column]):
                    yield f"{name}: the column {column} differs from the record"
