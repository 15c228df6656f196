"""Verification of the log: the tree against its signature, its rows and what was seen of it elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, func, select, union_all

from graph_agent.db import Database, read_pages
from graph_agent.models.canonical import digest
from graph_agent.models.record import RecordStatus
from graph_agent.record.statements import read
from graph_agent.record.tables import decision_logs, llm_call_logs, record_blobs, tool_invocation_logs
from graph_agent.record.tamper.tree_check import LEAF_TABLES, READ_SECONDS, CheckedTree, Progress, check_leaf, check_tree
from graph_agent.record.tamper.violations import Anchor, VerifyReport, Violation, ViolationKind, ViolationList
from graph_agent.record.tree.leaves import OPENING_COLUMNS, RecordKey, Sealer, commitment, is_written_by_us
from graph_agent.record.tree.reading import TILE, find_leaf, has_prefix, prove_leaf, read_head
from graph_agent.record.tree.statements import NOTED, Statement, StatementKind, is_noted_by_us, numbers_of, ranges
from graph_agent.record.tree.tables import LeafKind, record_leaves, record_pending, tree_cosignatures, tree_leaves, tree_nodes
from graph_agent.reply.text import counted
from graph_agent.tlog.checkpoint import Checkpoint, LogKeys
from graph_agent.tlog.merkle import TILE_LEVELS, Frontier
from graph_agent.tlog.note import VerifierKey, split_note

_ROWS_PER_READ = 200

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
    texts: dict[str, str] = {}
    for part in tree.parts:
        violations.extend(part.violations)
        # The first decision that references a text is named.
        texts = {**part.texts, **texts}
    await _check_head(database, tree, keys, violations)
    statements = [statement for part in tree.parts for statement in part.statements]
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
    waiting = 0
    with _reported("a row that waits for the tree cannot be read", violations):
        waiting = await _check_waiting(database, sealer, violations)
    await _find_repeated_leaves(database, violations)
    await _find_rows_outside(database, violations)
    await _find_unsealed_openings(database, sealer, violations)
    with _reported("a shared text cannot be read", violations):
        await _check_texts(database, texts, violations)
    still_open = select(func.count()).select_from(decision_logs).where(decision_logs.c.status == RecordStatus.PENDING)
    return VerifyReport(
        records=sum(part.records for part in tree.parts),
        size=0 if tree.head is None else tree.head.frontier.size,
        removed=removed,
        unstated=unstated,
        waiting=waiting,
        open=await read(database, lambda connection: connection.scalar(still_open) or 0),
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
    n = await read(database, partial(find_leaf, kind=LeafKind.DECISION, item=decision_id))
    if n is None:
        violations = ViolationList()
        waits = (record_pending.c.item == decision_id) & (record_pending.c.kind == LeafKind.DECISION)
        if not await _check_waiting(database, Sealer(key), violations, waits):
            violations.add(ViolationKind.ADDED, f"decision {decision_id} is not in the tree", decision_id=decision_id)
        return violations.listed
    violations = await check_leaf(database, n)
    try:
        proof = await read(database, partial(prove_leaf, n=n))
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
        after = await read(database, _leaves_after_head)
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
        if await read(database, partial(Connection.scalar, statement=wanted)) != root:
            violations.add(ViolationKind.EDITED, f"the stored root number {n} of level {above} is not the right one")


async def _noted_removals(database: Database, sealer: Sealer, violations: ViolationList) -> list[Statement]:
    """Return the removals that no statement lists yet."""
    noted = []
    for row in await read(database, lambda connection: connection.execute(NOTED).all()):
        if is_noted_by_us(row, sealer):
            noted.append(Statement.model_validate_json(row.facts))
        else:
            violations.add(ViolationKind.ADDED, "a removal was noted by hand")
    return noted


def _check_removals(
    checked: CheckedTree, statements: Sequence[Statement], noted: Sequence[Statement], violations: ViolationList
) -> tuple[int, int]:
    """Report the leaves whose rows are missing without a reason; return the number of the others, and of those only noted."""
    missing = {n for part in checked.parts for n in part.missing}
    removing = (StatementKind.ERASED, StatementKind.PRUNED)
    stated = numbers_of(leaves for one in statements if one.statement in removing for leaves in one.leaves or ())
    only_noted = numbers_of(leaves for one in noted for leaves in one.leaves or ()) & missing - stated
    for first, end in ranges(missing - stated - only_noted):
        which = f"the record at leaf {first} is" if end == first + 1 else f"the records at leaves {first} to {end - 1} are"
        violations.add(ViolationKind.REMOVED, f"{which} missing, and no statement says why", n=first)
    return len(missing & stated | only_noted), len(only_noted)


async def _compare(database: Database, seen: Seen, keys: LogKeys, violations: ViolationList) -> Anchor | None:
    """Report it if the log is not a continuation of a checkpoint that was seen elsewhere; else return the checkpoint."""
    name, checkpoint, at = seen
    when = datetime.fromtimestamp(at, UTC) if at else None
    has_seen = f"{name} has seen {counted(checkpoint.size, 'leaf', 'leaves')}"
    if when is not None:
        has_seen += f" at {when:%Y-%m-%d %H:%M:%S}"

    def work(connection: Connection) -> tuple[Checkpoint, bool]:
        head = read_head(connection)
        found = Checkpoint(keys.origin, 0, Frontier().root()) if head is None else keys.open(head.note)
        return found, found.size >= checkpoint.size and has_prefix(connection, checkpoint)

    try:
        head, continues = await read(database, work, seconds=READ_SECONDS)
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
    for row in await read(database, lambda connection: connection.execute(newest).all()):
        try:
            # Not by the key of the log, which may have been removed after a rotation.
            checkpoint = Checkpoint.parse(split_note(row.note)[0])
            if known := [one for one in witnesses if one.name == row.witness]:
                Checkpoint.open(f"{checkpoint.to_text()}\n{row.line}", known)
            is_its_line = checkpoint.size == row.size and row.line.split(" ")[1] == row.witness
            fits = is_its_line and await read(database, partial(has_prefix, seen=checkpoint), seconds=READ_SECONDS)
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
        rows = await read(database, partial(_decision_ids, which=wanted), seconds=READ_SECONDS)
        for decision_id in named.keys() - set(rows):
            if horizon is None or named[decision_id] >= horizon:
                text = f"decision {decision_id} is missing: {noun} of {named[decision_id]:%Y-%m-%d %H:%M:%S} names it"
                violations.add(ViolationKind.REMOVED, text, decision_id=decision_id)
    return compared


async def _check_waiting(
    database: Database, sealer: Sealer, violations: ViolationList, which: ColumnElement[bool] | None = None
) -> int:
    """Check the rows that are not in the tree yet, all or those that match `which`; return their number."""
    waiting = 0
    pending = record_pending.c
    is_its_decision = and_(pending.kind == LeafKind.DECISION, decision_logs.c.decision_id == pending.item)
    query = select(pending.number, pending.kind, pending.item, pending.commitment, pending.mac)
    with_record = query.add_columns(decision_logs.c.record, decision_logs.c.salt).outerjoin(decision_logs, is_its_decision)
    async for row in _rows_by_key(database, with_record if which is None else with_record.where(which), pending.number):
        waiting += 1
        if not is_written_by_us(row, sealer):
            text = f"the {row.kind} {row.item} waits for the tree and was added or changed by hand"
            violations.add(ViolationKind.ADDED, text)
        elif row.kind is LeafKind.DECISION and commitment(row.salt, row.record or "") != row.commitment:
            text = f"the record of decision {row.item}, which waits for the tree, is not the one that was closed"
            violations.add(ViolationKind.EDITED, text, decision_id=row.item)
    return waiting


async def _find_repeated_leaves(database: Database, violations: ViolationList) -> None:
    """Report commitments that are twice in the tree or wait for it: a row that was erased, or a pending row, was put back."""
    commitments = union_all(select(tree_leaves.c.commitment), select(record_pending.c.commitment)).subquery()
    count = func.count()
    repeated = select(count).select_from(commitments).group_by(commitments.c.commitment).having(count > 1)
    for times in await read(database, lambda connection: connection.execute(repeated).scalars().all(), seconds=READ_SECONDS):
        violations.add(
            ViolationKind.ADDED, f"a leaf is {times} times in the tree or waiting for it: a row was put back by hand"
        )


async def _find_rows_outside(database: Database, violations: ViolationList) -> None:
    """Report closed decisions and other rows that are neither in the tree nor wait for it, and calls without a decision."""
    for table in dict.fromkeys(LEAF_TABLES.values()):
        kinds, key = [kind for kind, rows in LEAF_TABLES.items() if rows is table], table.columns[0]
        # With the leaf: a row that names a position without one is in no tree.
        placed = select(record_leaves.c.n).join(
            tree_leaves, and_(tree_leaves.c.n == record_leaves.c.n, tree_leaves.c.kind == record_leaves.c.kind)
        )
        in_tree = placed.where(record_leaves.c.item == key, record_leaves.c.kind.in_(kinds)).exists()
        waits = select(record_pending.c.number).where(record_pending.c.item == key, record_pending.c.kind.in_(kinds)).exists()
        outside = select(key).where(~in_tree, ~waits)
        if table is decision_logs:
            outside = outside.where(decision_logs.c.status != RecordStatus.PENDING)
        async for row in _rows_by_key(database, outside, key):
            noun = f"decision {row[0]}" if table is decision_logs else f"{row[0]} of the table {table.name}"
            decision_id = row[0] if table is decision_logs else None
            violations.add(ViolationKind.ADDED, f"{noun} is not in the tree: it was added by hand", decision_id=decision_id)

    for table in (tool_invocation_logs, llm_call_logs):
        of_decision = select(decision_logs.c.decision_id).where(decision_logs.c.decision_id == table.c.decision_id).exists()
        alone = select(table.c.decision_id).where(~of_decision).distinct()
        async for row in _rows_by_key(database, alone, table.c.decision_id):
            violations.add(ViolationKind.ADDED, f"a row of {table.name} names the decision {row[0]}, which does not exist")


async def _find_unsealed_openings(database: Database, sealer: Sealer, violations: ViolationList) -> None:
    """Report open decisions whose opening row has no valid MAC."""
    still_open = select(*decision_logs.c[OPENING_COLUMNS]).where(decision_logs.c.status == RecordStatus.PENDING)
    async for row in _rows_by_key(database, still_open, decision_logs.c.decision_id):
        if not sealer.has_sealed(row._asdict()):
            text = f"decision {row.decision_id} is open without a valid seal: it was added or changed by hand"
            violations.add(ViolationKind.ADDED, text, decision_id=row.decision_id)


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


async def _rows_by_key(database: Database, query: Select[Any], key: Column[Any]) -> AsyncIterator[Row[Any]]:
    """Yield the rows of `query` in the order of its first column `key`, a limited number in each read."""
    async for page in read_pages(partial(read, database, seconds=READ_SECONDS), query, key, size=_ROWS_PER_READ):
        for row in page:
            yield row
