"""Verification of the log: the tree against its signature, its rows and what was seen of it elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, String, Table, and_, func, select, type_coerce, union_all
from sqlalchemy.types import NullType

from graph_agent.db import Database, read_pages
from graph_agent.models.canonical import digest
from graph_agent.models.record import RecordStatus
from graph_agent.record.operations import is_intended_by_us
from graph_agent.record.tables import call_operations, decision_logs, record_blobs, tool_invocation_logs
from graph_agent.record.tamper.mandate_check import check_mandates
from graph_agent.record.tamper.operation_check import expected_open_state
from graph_agent.record.tamper.rules_check import check_rules
from graph_agent.record.tamper.stop_check import check_stops
from graph_agent.record.tamper.tree_check import (
    LEAF_TABLES,
    CheckedPart,
    CheckedTree,
    Progress,
    StoredRows,
    check_leaf,
    check_tree,
    committed_text,
    read_all,
    read_rows,
    select_raw,
)
from graph_agent.record.tamper.violations import Anchor, VerifyReport, Violation, ViolationKind, ViolationList
from graph_agent.record.tree.leaves import OPENING_COLUMNS, RecordKey, Sealer, commitment, is_written_by_us
from graph_agent.record.tree.reading import TILE, find_leaf, has_prefix, prove_leaf, read_head
from graph_agent.record.tree.statements import (
    NOTED,
    Statement,
    StatementKind,
    count_of,
    difference,
    is_noted_by_us,
    merged,
)
from graph_agent.record.tree.tables import (
    LeafKind,
    record_leaves,
    record_pending,
    record_removals,
    tree_cosignatures,
    tree_leaves,
    tree_nodes,
)
from graph_agent.reply.text import counted
from graph_agent.tlog.checkpoint import Checkpoint, LogKeys
from graph_agent.tlog.merkle import TILE_LEVELS, Frontier
from graph_agent.tlog.note import VerifierKey, split_note

_ROWS_PER_READ = 200
_KEYS_PER_READ = 1000

References = AsyncIterator[Sequence[tuple[str, datetime]]]
"""Pages of decision ids, each with a time at which the decision had started."""
Seen = tuple[str, Checkpoint, int]
"""A checkpoint that was seen elsewhere: by whom, what, and the POSIX time (0 for none)."""


async def verify_log(
    database: Database,
    *,
    keys: LogKeys,
    key: RecordKey,
    current: Database | None = None,
    seen: Sequence[Seen] = (),
    witnesses: Sequence[VerifierKey] = (),
    references: Mapping[str, References] = MappingProxyType({}),
    on_progress: Progress | None = None,
    checked: CheckedTree | None = None,
) -> VerifyReport:
    """Verify the whole log: signed with `keys`, the rows that are not in the tree yet under `key`.

    `seen` are checkpoints that witnesses and others have seen before this call, and `witnesses` are the keys by which stored
    cosignatures are verified. `references` are decisions that other tables
    name, under the noun for what names them ("a turn"). One that is neither in the log nor was removed on purpose is missing.
    If `database` is a replica, `current` is its original: it is compared with `seen` and `references`, which may be newer than
    the replica. Records that are closed meanwhile are not covered. `checked` has the results of all parts of `split_tree`, in
    order, if other processes have checked them. Raises `ServiceError` STORAGE_ERROR.
    """
    sealer, violations, current = Sealer(key), ViolationList(), current or database
    tree = checked or await check_tree(database, on_progress)
    for part in tree.parts:
        violations.extend(part.violations)
    await _check_head(database, tree, keys, violations)
    waiting, unsealed = await _check_waiting(database, sealer)
    violations.extend(unsealed.violations)
    parts = [*tree.parts, unsealed]
    statements = [statement for part in parts for statement in part.statements]
    texts: dict[str, str] = {}
    for name, decision_id in (one for part in parts for one in part.texts.items()):
        # The first decision that references a text is named.
        texts.setdefault(name, decision_id)
    rules = {name: decision_id for part in reversed(parts) for name, decision_id in part.rules.items()}
    noted = await _noted_removals(database, sealer, violations)
    removed, unstated = _check_removals(tree, statements, noted, violations)
    anchors = [found for one in seen if (found := await _compare(current, one, keys, violations)) is not None]
    with _reported("a stored signature of a witness cannot be read", violations):
        await _check_cosignatures(database, witnesses, violations)
    horizon = max((one.before for one in (*statements, *noted) if one.before is not None), default=None)
    compared = []
    for noun, pages in references.items():
        with _reported(f"{noun} cannot be read", violations):
            compared.append(await _find_missing_decisions(current, horizon, noun, pages, violations))
    await _find_repeated_leaves(database, violations)
    for table in dict.fromkeys(LEAF_TABLES.values()):
        if table is not decision_logs:
            await _find_rows_outside(database, table, violations)
    still_open = await _check_decisions(database, sealer, violations)
    await _find_calls_alone(database, tool_invocation_logs, violations)
    await _check_operations(database, sealer, violations)
    with _reported("a stop cannot be read", violations):
        await check_stops(database, sealer, statements, violations)
    with _reported("a plan cannot be read", violations):
        drawn, counted = [part.drawn for part in parts], [part.counted for part in parts]
        await check_mandates(database, sealer, statements, drawn, counted, violations)
    with _reported("a rule set cannot be read", violations):
        await check_rules(database, sealer, statements, rules, violations)
    with _reported("a shared text cannot be read", violations):
        await _check_texts(database, texts, violations)
    return VerifyReport(
        records=sum(part.records for part in tree.parts),
        size=0 if tree.head is None else tree.head.frontier.size,
        removed=removed,
        unstated=unstated,
        waiting=waiting,
        open=still_open,
        references=sum(compared),
        forks=[reason for one in statements if one.statement is StatementKind.FORKED for reason in one.reasons or ()],
        anchors=sorted(anchors, key=lambda one: (one.size, one.at is not None), reverse=True),
        count=violations.count,
        violations=violations.listed,
    )


@contextmanager
def _reported(text: str, violations: ViolationList) -> Iterator[None]:
    """Report a value that no version of this program has written."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError):
        violations.add(ViolationKind.EDITED, f"{text}: it was changed by hand")


async def verify_decision(database: Database, decision_id: str, *, keys: LogKeys, key: RecordKey) -> list[Violation]:
    """Verify the leaf, the record and the rows of one closed decision. Raises `ServiceError` STORAGE_ERROR."""
    n = await read_all(database, partial(find_leaf, kind=LeafKind.DECISION, item=decision_id))
    if n is None:
        waits = (record_pending.c.item == decision_id) & (record_pending.c.kind == LeafKind.DECISION)
        waiting, unsealed = await _check_waiting(database, Sealer(key), waits)
        violations = unsealed.violations
        if not waiting:
            violations.add(ViolationKind.ADDED, f"decision {decision_id} is not in the tree", decision_id=decision_id)
        return violations.listed
    violations = await check_leaf(database, n)
    try:
        proof = await read_all(database, partial(prove_leaf, n=n))
        keys.open(proof.partition("\n\n")[2])
    except (LookupError, ValueError) as exc:
        text = f"the leaf of decision {decision_id} cannot be proved: {exc}"
        violations.add(ViolationKind.SIGNATURE, text, decision_id=decision_id, n=n)
    return violations.listed


async def _check_head(database: Database, checked: CheckedTree, keys: LogKeys, violations: ViolationList) -> None:
    """Check that the leaves give the signed root, that the stored nodes are theirs, and that no leaves follow them."""
    tiles = Frontier()
    nodes = []
    for tile in (tile for part in checked.parts for tile in part.tiles):
        nodes += tiles.push(bytes.fromhex(tile))
    # The complete subtrees over whole tiles are those over their leaves.
    tree = Frontier(tiles.size * TILE, tiles.hashes)
    for leaf in (leaf for part in checked.parts for leaf in part.rest):
        tree.push(bytes.fromhex(leaf))
    try:
        after = await read_all(database, _leaves_after_head)
        if checked.head is not None:
            checkpoint = keys.open(checked.head.note)
            if (checkpoint.size, checkpoint.root) != (tree.size, tree.root()):
                text = f"the leaves do not give the signed root of the tree of {checkpoint.size:,} leaves"
                violations.add(ViolationKind.EDITED, text)
        if after:
            violations.add(ViolationKind.ADDED, f"{counted(after, 'leaf', 'leaves')} after the signed tree were added by hand")
    except ValueError as exc:
        violations.add(ViolationKind.SIGNATURE, f"the head of the log is not the one that was signed: {exc}")
    for level, n, root in nodes:
        above = 1 + level // TILE_LEVELS
        wanted = select(tree_nodes.c.hash).where(tree_nodes.c.level == above, tree_nodes.c.n == n)
        if await read_all(database, partial(Connection.scalar, statement=wanted)) != root:
            violations.add(ViolationKind.EDITED, f"the stored root number {n} of level {above} is not the right one")


async def _noted_removals(database: Database, sealer: Sealer, violations: ViolationList) -> list[Statement]:
    """Return the removals that no statement lists yet."""
    noted = []
    async for row in _rows_by_key(database, NOTED, record_removals.c.number):
        if is_noted_by_us(row, sealer):
            noted.append(Statement.model_validate_json(row.facts))
        else:
            violations.add(ViolationKind.ADDED, "a removal was noted by hand")
    return noted


def _check_removals(
    checked: CheckedTree, statements: Sequence[Statement], noted: Sequence[Statement], violations: ViolationList
) -> tuple[int, int]:
    """Report the leaves whose rows are missing without a reason; return the number of the others, and of those only noted."""
    missing = merged(part for checked_part in checked.parts for part in checked_part.missing)
    removing = (StatementKind.ERASED, StatementKind.PRUNED)
    stated = merged(leaves for one in statements if one.statement in removing for leaves in one.leaves or ())
    unstated = difference(missing, stated)
    without_reason = difference(unstated, merged(leaves for one in noted for leaves in one.leaves or ()))
    for first, end in without_reason:
        which = f"the record at leaf {first} is" if end == first + 1 else f"the records at leaves {first} to {end - 1} are"
        violations.add(ViolationKind.REMOVED, f"{which} missing, and no statement says why", n=first)
    return count_of(missing) - count_of(without_reason), count_of(unstated) - count_of(without_reason)


async def _compare(database: Database, seen: Seen, keys: LogKeys, violations: ViolationList) -> Anchor | None:
    """Report it if the log is not a continuation of a checkpoint that was seen elsewhere; else return the checkpoint."""
    name, checkpoint, at = seen
    when = datetime.fromtimestamp(at, UTC) if at else None
    has_seen = f"{name} has seen {counted(checkpoint.size, 'leaf', 'leaves')}"
    if when is not None:
        has_seen += f" at {when:%Y-%m-%d %H:%M:%S}"

    def read_head_and_compare(connection: Connection) -> tuple[Checkpoint, bool]:
        head = read_head(connection)
        found = Checkpoint(keys.origin, 0, Frontier().root()) if head is None else keys.open(head.note)
        return found, found.size >= checkpoint.size and has_prefix(connection, checkpoint)

    try:
        head, continues = await read_all(database, read_head_and_compare)
    except ValueError:
        return None  # reported with the head
    if head.origin != checkpoint.origin:
        text = f"{name} has seen the log {checkpoint.origin}, and the database has {head.origin}"
        violations.add(ViolationKind.REMOVED, text)
    elif head.size < checkpoint.size:
        text = f"{has_seen}, the log has {head.size}: the end was removed or the database was rolled back"
        violations.add(ViolationKind.REMOVED, text)
    elif not continues:
        violations.add(ViolationKind.EDITED, f"{has_seen}, and the log is not a continuation of them: it was rewritten")
    else:
        return Anchor(name=name, size=checkpoint.size, at=when)
    return None


async def _check_cosignatures(database: Database, witnesses: Sequence[VerifierKey], violations: ViolationList) -> None:
    """Report the newest stored cosignatures if they are invalid, or of trees that the log does not continue."""
    newest = select(tree_cosignatures).order_by(tree_cosignatures.c.size.desc()).limit(_ROWS_PER_READ)
    for row in await read_all(database, lambda connection: connection.execute(newest).all()):
        try:
            # Not by the key of the log, which may have been removed after a rotation.
            checkpoint = Checkpoint.parse(split_note(row.note)[0])
            if known := [one for one in witnesses if one.name == row.witness]:
                Checkpoint.open(f"{checkpoint.to_text()}\n{row.line}", known)
            is_its_line = checkpoint.size == row.size and row.line.split(" ")[1] == row.witness
            fits = is_its_line and await read_all(database, partial(has_prefix, seen=checkpoint))
        except ValueError:
            fits = False
        if not fits:
            text = f"the stored signature of {row.witness} for {row.size} leaves is invalid, or for another tree"
            violations.add(ViolationKind.EDITED, text)


async def _find_missing_decisions(
    database: Database, horizon: datetime | None, noun: str, references: References, violations: ViolationList
) -> int:
    """Report the decisions that `references` name and that are missing; return the number of references."""
    compared = 0
    async for page in references:
        compared += len(page)
        named = dict(page)
        wanted = decision_logs.c.decision_id.in_(list(named))
        rows = await read_all(database, partial(_decision_ids, which=wanted))
        for decision_id in named.keys() - set(rows):
            if horizon is None or named[decision_id] >= horizon:
                text = f"decision {decision_id} is missing: {noun} of {named[decision_id]:%Y-%m-%d %H:%M:%S} names it"
                violations.add(ViolationKind.REMOVED, text, decision_id=decision_id)
    return compared


async def _check_waiting(
    database: Database, sealer: Sealer, which: ColumnElement[bool] | None = None
) -> tuple[int, CheckedPart]:
    """Check the rows that are not in the tree yet, all or those that match `which`; return their number and the result.

    They are compared as those of a leaf are. Nothing in the result has a position.
    """
    waiting, checked = 0, CheckedPart()

    def look(connection: Connection, rows: Sequence[Any]) -> Any:
        items = [(row.kind, row.item) for row in rows if isinstance(row.item, str)]
        return rows, read_rows(connection, items)

    query = select_raw(record_pending)
    query = query if which is None else query.where(which)
    pages = read_pages(partial(read_all, database), query, record_pending.c.number, size=TILE, look=look)
    async for rows, stored in pages:
        waiting += len(rows)
        for row in rows:
            if not _is_written_by_us(row, sealer):
                what = f"the {row.kind} {row.item} waits for the tree and was added or changed by hand"
                checked.violations.add(ViolationKind.ADDED, what)
            else:
                _check_unsealed(checked, row, stored)
    return waiting, checked


def _check_unsealed(checked: CheckedPart, row: Any, stored: StoredRows) -> None:
    """Compare a row that waits for the tree with its commitment, and a decision with its record."""
    found, is_decision = stored.rows.get((row.kind, row.item)), row.kind == LeafKind.DECISION
    text = None if found is None else committed_text(row.kind, found)
    if found is None or text is None or commitment(found.salt, text) != row.commitment:
        decision_id = row.item if is_decision else None
        what = f"the record of decision {row.item}" if is_decision else f"the {row.kind} {row.item}"
        what += f", which waits for the tree, is not the one that was {'closed' if is_decision else 'stored'}"
        checked.violations.add(ViolationKind.EDITED, what, decision_id=decision_id)
    elif row.kind == LeafKind.STATEMENT:
        checked.statements.append(Statement.model_validate_json(text))
    elif is_decision:
        checked.check_decision(stored, found)


def _is_written_by_us(row: Any, sealer: Sealer) -> bool:
    try:
        return is_written_by_us(row, sealer)
    except (TypeError, ValueError):
        # A value of another type, which SQLite stores in any column.
        return False


async def _find_repeated_leaves(database: Database, violations: ViolationList) -> None:
    """Report commitments that are twice in the tree or wait for it: a row that was erased, or a pending row, was put back."""
    commitments = union_all(select(tree_leaves.c.commitment), select(record_pending.c.commitment)).subquery()
    times = func.count().label("times")
    repeated = select(times).select_from(commitments).group_by(commitments.c.commitment).having(times > 1).subquery()
    counts = select(repeated.c.times, func.count()).group_by(repeated.c.times).order_by(repeated.c.times)
    for number, leaves in await read_all(database, lambda connection: connection.execute(counts).all()):
        for _ in range(leaves):
            text = f"a leaf is {number} times in the tree or waiting for it: a row was put back by hand"
            violations.add(ViolationKind.ADDED, text)


async def _find_rows_outside(database: Database, table: Table, violations: ViolationList) -> None:
    """Report rows of `table` that are neither in the tree nor wait for it."""
    key = table.columns[0]

    def look(connection: Connection, rows: Sequence[Any]) -> Any:
        return _outside(connection, table, [row[0] for row in rows])

    async for outside in read_pages(partial(read_all, database), select(key), key, size=_KEYS_PER_READ, look=look):
        for item in outside:
            violations.add(ViolationKind.ADDED, f"{item} of the table {table.name} is not in the tree: it was added by hand")


async def _check_decisions(database: Database, sealer: Sealer, violations: ViolationList) -> int:
    """Report closed decisions that are neither in the tree nor wait for it, and open ones whose opening row has no valid MAC.

    Return the number of open ones.
    """
    still_open, columns = 0, decision_logs.c

    def look(connection: Connection, rows: Sequence[Any]) -> Any:
        is_open = [row.decision_id for row in rows if row.status == RecordStatus.PENDING]
        closed = [row.decision_id for row in rows if row.status != RecordStatus.PENDING]
        openings = select(*columns[OPENING_COLUMNS]).where(columns.decision_id.in_(is_open))
        return connection.execute(openings).all() if is_open else [], _outside(connection, decision_logs, closed)

    query = select(columns.decision_id, type_coerce(columns.status, String).label("status"))
    async for opened, outside in read_pages(
        partial(read_all, database), query, columns.decision_id, size=_KEYS_PER_READ, look=look
    ):
        for decision_id in outside:
            text = f"decision {decision_id} is not in the tree: it was added by hand"
            violations.add(ViolationKind.ADDED, text, decision_id=decision_id)
        still_open += len(opened)
        for row in opened:
            if not sealer.has_sealed(row._asdict()):
                text = f"decision {row.decision_id} is open without a valid seal: it was added or changed by hand"
                violations.add(ViolationKind.ADDED, text, decision_id=row.decision_id)
    return still_open


def _outside(connection: Connection, table: Table, ids: Sequence[Any]) -> list[Any]:
    """Return those of these keys of `table` that are neither in the tree nor wait for it."""
    kinds = [kind for kind, rows in LEAF_TABLES.items() if rows is table]
    # With the leaf: a row that names a position without one is in no tree.
    its_leaf = and_(tree_leaves.c.n == record_leaves.c.n, tree_leaves.c.kind == record_leaves.c.kind)
    placed = select(record_leaves.c.item).join(tree_leaves, its_leaf)
    placed = placed.where(record_leaves.c.item.in_(ids), record_leaves.c.kind.in_(kinds))
    waits = select(record_pending.c.item).where(record_pending.c.item.in_(ids), record_pending.c.kind.in_(kinds))
    known = {item for query in (placed, waits) for item in connection.execute(query).scalars()} if ids else set()
    return [item for item in ids if item not in known]


async def _find_calls_alone(database: Database, table: Table, violations: ViolationList) -> None:
    """Report the calls in `table` without a decision."""
    last: Any = None

    def look(connection: Connection, rows: Sequence[Any]) -> Any:
        named = dict.fromkeys(row.decision_id for row in rows)
        return _without_decision(connection, list(named))

    key = (table.c.decision_id, table.c.sequence)
    async for alone in read_pages(partial(read_all, database), select(*key), *key, size=_KEYS_PER_READ, look=look):
        for decision_id in alone:
            # The calls of one decision may be on two pages.
            if decision_id != last:
                text = f"a row of {table.name} names the decision {decision_id}, which does not exist"
                violations.add(ViolationKind.ADDED, text)
            last = decision_id


def _without_decision(connection: Connection, ids: Sequence[Any]) -> list[Any]:
    """Return those of these ids that no decision has."""
    found = set(_decision_ids(connection, decision_logs.c.decision_id.in_(ids)))
    return [decision_id for decision_id in ids if decision_id not in found]


async def _check_operations(database: Database, sealer: Sealer, violations: ViolationList) -> None:
    """Report operations without a valid MAC, and those of open decisions whose state is not that of the stored call.

    The operations of closed decisions are compared with the records.
    """
    columns, calls = call_operations.c, tool_invocation_logs.c
    is_stored_call = and_(calls.decision_id == columns.decision_id, calls.sequence == columns.sequence)
    is_its_decision = decision_logs.c.decision_id == columns.decision_id
    query = (
        select_raw(call_operations)
        .add_columns(type_coerce(decision_logs.c.status, String).label("status"))
        .add_columns(calls.sequence.label("called"))
        .add_columns(*(type_coerce(column, NullType()).label(column.name) for column in (calls.success, calls.error_code)))
        .outerjoin(decision_logs, is_its_decision)
        .outerjoin(tool_invocation_logs, is_stored_call)
    )
    key = (columns.decision_id, columns.sequence)
    async for row in _rows_by_key(database, query, *key):
        outcome = None if row.called is None else (bool(row.success), row.error_code)
        what = f"the operation {row.sequence} of decision {row.decision_id}"
        if not is_intended_by_us(row._mapping, sealer):
            violations.add(ViolationKind.PROJECTION, f"{what} was added or changed by hand", decision_id=row.decision_id)
        elif row.status == RecordStatus.PENDING and row.state != expected_open_state(outcome):
            text = f"{what} is {row.state}, and its call is not"
            violations.add(ViolationKind.PROJECTION, text, decision_id=row.decision_id)


async def _check_texts(database: Database, referenced: dict[str, str], violations: ViolationList) -> None:
    """Check that every shared text matches its digest, and that no `referenced` text (digest to decision) is missing."""
    missing = dict(referenced)
    texts = select(record_blobs.c.digest, record_blobs.c.text)
    async for row in _rows_by_key(database, texts, record_blobs.c.digest):
        decision_id = missing.pop(row.digest, None)
        if digest(row.text) != row.digest:
            text = f"the shared text {row.digest} does not match its digest"
            violations.add(ViolationKind.TEXT, text, decision_id=decision_id)
    for name, decision_id in missing.items():
        text = f"the shared text {name} is missing, and decision {decision_id} references it"
        violations.add(ViolationKind.TEXT, text, decision_id=decision_id)


def _leaves_after_head(connection: Connection) -> int:
    """Return the number of leaves after the signed ones. Raises ValueError if the head was changed by hand."""
    head = read_head(connection)
    size = 0 if head is None else head.frontier.size
    return connection.scalar(select(func.count()).select_from(tree_leaves).where(tree_leaves.c.n >= size)) or 0


def _decision_ids(connection: Connection, which: ColumnElement[bool]) -> Sequence[str]:
    return connection.execute(select(decision_logs.c.decision_id).where(which)).scalars().all()


async def _rows_by_key(database: Database, query: Select[Any], *key: Column[Any]) -> AsyncIterator[Row[Any]]:
    """Yield the rows of `query` in the order of `key`, its first columns, a limited number in each read."""
    async for page in read_pages(partial(read_all, database), query, *key, size=_ROWS_PER_READ):
        for row in page:
            yield row
