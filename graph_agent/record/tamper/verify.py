"""The verification of the log: chains, signed heads, decisions outside of any chain, sealed rows, shared texts, and decisions
that other databases name.

It reads in small transactions, so that writers and pruning continue meanwhile. Each transaction sees a consistent state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, func, select

from graph_agent.db import Database
from graph_agent.db.paging import read_pages
from graph_agent.models.canonical import digest
from graph_agent.models.record import RecordStatus
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.chain_tables import record_chains, record_links
from graph_agent.record.opening_seal import CHECKED_COLUMNS, has_valid_seal
from graph_agent.record.row_seal import row_seal
from graph_agent.record.sealed_rows import SEALED_TABLES, count_rows, read_tally
from graph_agent.record.statements import read
from graph_agent.record.tables import decision_logs, record_blobs
from graph_agent.record.tamper.chain_check import READ_SECONDS, ChainCheck, Progress
from graph_agent.record.tamper.chain_parts import CheckedPart, check_part, split_chains
from graph_agent.record.tamper.heads import ChainHead, SignedHeads
from graph_agent.record.tamper.pruned import pruned_until
from graph_agent.record.tamper.row_comparison import select_raw
from graph_agent.record.tamper.violations import VerifyReport, Violation, ViolationKind, ViolationList

_ROWS_PER_READ = 200

References = AsyncIterator[Sequence[tuple[str, datetime]]]
"""Pages of decision ids, each with a time at which the decision had started."""


async def verify_log(
    database: Database,
    *,
    current: Database | None = None,
    key: ChainKey,
    heads: SignedHeads | None = None,
    references: Mapping[str, References] = MappingProxyType({}),
    on_progress: Progress | None = None,
    checked: Sequence[CheckedPart] | None = None,
) -> VerifyReport:
    """Verify the whole log under `key`; `heads` are signed heads that were kept outside, to be compared with the chains.

    `references` are decisions that other databases name, under the noun for what names them ("a turn"). One that is neither in
    the log nor pruned is missing. If `database` is a replica, `current` is its original: it is compared with `heads` and
    `references`, which may be newer than the replica. Records that are closed meanwhile are not covered. `checked` has the
    results of all parts of `split_chains`, in order, if other processes have checked the chains. Raises `ServiceError`
    STORAGE_ERROR.
    """
    sealer, violations, current = Sealer(key), ViolationList(), current or database
    if checked is None:
        checked = await _check_chains(database, sealer, on_progress)
    texts: dict[str, str] = {}
    for part in checked:
        violations.extend(part.count, part.violations)
        # The first decision that references a text is named.
        texts = {**part.texts, **texts}
    if heads is not None:
        await _compare_heads(current, sealer, heads, violations)
    compared = [await _find_missing_decisions(current, sealer, *named, violations) for named in references.items()]
    await _find_unsealed_decisions(database, violations)
    await _find_unsealed_openings(database, sealer, violations)
    await _find_links_without_chain(database, violations)
    await _check_sealed_rows(database, sealer, heads, violations)
    await _check_texts(database, texts, violations)
    return VerifyReport(
        records=sum(part.records for part in checked),
        chains=sum(part.chains for part in checked),
        pruned=sum(part.pruned for part in checked),
        open=await read(database, _count_open),
        references=sum(compared),
        keyed=key is not None,
        count=violations.count,
        violations=violations.listed,
    )


async def verify_decision(database: Database, decision_id: str, *, key: ChainKey) -> list[Violation]:
    """Verify the seal, the record and the rows of one closed decision under `key`. Raises `ServiceError` STORAGE_ERROR."""
    violations = ViolationList()
    await ChainCheck(database, Sealer(key), violations).check_decision(decision_id)
    return violations.listed


async def _check_chains(database: Database, sealer: Sealer, on_progress: Progress | None) -> list[CheckedPart]:
    parts = await split_chains(database)
    checked: list[CheckedPart] = []
    for part in parts:
        checked.append(await check_part(database, sealer, part))
        if on_progress is not None:
            on_progress(sum(one.links for one in parts[: len(checked)]), sum(one.links for one in parts))
    return checked


async def _compare_heads(database: Database, sealer: Sealer, heads: SignedHeads, violations: ViolationList) -> None:
    """Check that every chain still contains the head that was signed and kept outside."""
    if not heads.is_signed_by(sealer):
        violations.add(ViolationKind.SIGNATURE, "the given heads are not signed with this key")
        return
    for head in heads.heads:
        chain, mac = await read(database, _read_head(head))
        signed = f"it had {head.n} records on {heads.at:%Y-%m-%d %H:%M}"
        if chain is None:
            violations.add(ViolationKind.REMOVED, f"chain {head.chain} is missing: {signed}", chain=head.chain, n=head.n)
        elif chain.cut_n > head.n or (chain.cut_n == head.n and chain.cut_mac == head.mac):
            # Everything up to this head was pruned since; the chain check has verified the signature of the prune marker.
            continue
        elif mac is None:
            text = f"the end of chain {head.chain} is missing: {signed}"
            violations.add(ViolationKind.REMOVED, text, chain=head.chain, n=head.n)
        elif mac != head.mac:
            text = f"chain {head.chain} was rewritten: its seal at position {head.n} is not the signed one"
            violations.add(ViolationKind.EDITED, text, chain=head.chain, n=head.n)


async def _find_missing_decisions(
    database: Database, sealer: Sealer, noun: str, references: References, violations: ViolationList
) -> int:
    """Report the decisions that `references` name and that are missing; return the number of references."""
    compared = 0
    async for page in references:
        compared += len(page)
        named = dict(page)
        stored = select(decision_logs.c.decision_id).where(decision_logs.c.decision_id.in_(list(named)))

        def work(connection: Connection, stored: Select[Any] = stored) -> tuple[set[str], datetime | None]:
            # In one snapshot, because decisions may be pruned meanwhile.
            return set(connection.execute(stored).scalars()), pruned_until(connection, sealer)

        present, pruned = await read(database, work, seconds=READ_SECONDS)
        for decision_id in named.keys() - present:
            if pruned is None or named[decision_id] > pruned:
                text = f"decision {decision_id} is missing: {noun} of {named[decision_id]:%Y-%m-%d %H:%M:%S} names it"
                violations.add(ViolationKind.REMOVED, text, decision_id=decision_id)
    return compared


async def _check_sealed_rows(database: Database, sealer: Sealer, heads: SignedHeads | None, violations: ViolationList) -> None:
    """Report the baselines and reports that are missing or whose seals do not verify. Settlements are stored as reports."""
    # In one snapshot, because rows may be added meanwhile.
    tally, found = await read(
        database, lambda connection: (read_tally(connection, sealer), count_rows(connection)), seconds=READ_SECONDS
    )
    changed = tally is None
    for table in SEALED_TABLES:
        async for row in _rows_by_key(database, select_raw(table), table.columns[0]):
            if not sealer.accepts(row.seal, partial(row_seal, table, row._mapping)):
                changed = True
                text = f"{row[0]} of the table {table.name} was added or changed by hand"
                violations.add(ViolationKind.EDITED if row.seal else ViolationKind.ADDED, text)
    if tally is None:
        return
    if found.rows != tally.rows:
        text = f"{tally.rows} baselines, reports and settlements were counted, and {found.rows} are stored"
        violations.add(ViolationKind.REMOVED, text)
    elif found.sum != tally.sum and not changed:
        violations.add(ViolationKind.REMOVED, "a baseline, report or settlement was replaced by one that had been removed")
    if heads is not None and heads.rows is not None and heads.is_signed_by(sealer) and tally.added < heads.rows:
        when = f"{heads.at:%Y-%m-%d %H:%M}"
        text = f"{heads.rows} baselines, reports and settlements had been counted on {when}, and now {tally.added}"
        violations.add(ViolationKind.REMOVED, text)


async def _find_unsealed_decisions(database: Database, violations: ViolationList) -> None:
    """Report closed decisions that are in no chain."""
    linked = select(record_links.c.decision_id).where(record_links.c.decision_id == decision_logs.c.decision_id).exists()
    unsealed = select(decision_logs.c.decision_id).where(decision_logs.c.status != RecordStatus.PENDING, ~linked)
    async for row in _rows_by_key(database, unsealed, decision_logs.c.decision_id):
        text = f"decision {row.decision_id} is in no chain"
        violations.add(ViolationKind.ADDED, text, decision_id=row.decision_id)


async def _find_unsealed_openings(database: Database, sealer: Sealer, violations: ViolationList) -> None:
    """Report open decisions whose opening row has no valid seal."""
    still_open = select(*CHECKED_COLUMNS).where(decision_logs.c.status == RecordStatus.PENDING)
    async for row in _rows_by_key(database, still_open, decision_logs.c.decision_id):
        if not has_valid_seal(row, sealer):
            text = f"decision {row.decision_id} is open without a valid seal: it was added or changed by hand"
            violations.add(ViolationKind.ADDED, text, decision_id=row.decision_id)


async def _find_links_without_chain(database: Database, violations: ViolationList) -> None:
    """Report chains that have links but no row."""
    listed = select(record_chains.c.chain).where(record_chains.c.chain == record_links.c.chain).exists()
    orphans = select(record_links.c.chain).where(~listed).distinct()
    for chain in await read(database, lambda connection: connection.execute(orphans).scalars().all()):
        violations.add(ViolationKind.REMOVED, f"chain {chain} has links, but its own row is missing", chain=chain)


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


def _read_head(head: ChainHead) -> Callable[[Connection], tuple[Any, str | None]]:
    """Return a read of the chain's row and of the seal at the head's position."""

    def work(connection: Connection) -> tuple[Any, str | None]:
        chain = connection.execute(select(record_chains).where(record_chains.c.chain == head.chain)).one_or_none()
        seal = select(record_links.c.mac).where(record_links.c.chain == head.chain, record_links.c.n == head.n)
        return chain, connection.execute(seal).scalar_one_or_none()

    return work


async def _rows_by_key(database: Database, query: Select[Any], key: Column[str]) -> AsyncIterator[Row[Any]]:
    """Yield the rows of `query` in the order of its first column `key`, a limited number in each read."""
    async for page in read_pages(partial(read, database, seconds=READ_SECONDS), query, key, _ROWS_PER_READ):
        for row in page:
            yield row


def _count_open(connection: Connection) -> int:
    pending = select(func.count()).select_from(decision_logs).where(decision_logs.c.status == RecordStatus.PENDING)
    return connection.scalar(pending) or 0
