"""Signed pruning: a record that is removed on purpose leaves a signature in its chain, so that verification accepts the gap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select, update

from graph_agent.db.prepared import insert_or_replace
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.chain_tables import record_chains, record_links
from graph_agent.record.row_seal import row_seal, with_seal
from graph_agent.record.sealed_rows import PRUNE_HORIZON
from graph_agent.record.tables import decision_logs, reports_table
from graph_agent.record.tamper.row_comparison import select_raw

# Parameters are named unlike the columns: an UPDATE binds its new values under the columns' own names.
_SIGN_LINK = update(record_links).where(
    record_links.c.chain == bindparam("of_chain"), record_links.c.n == bindparam("position")
)
_SET_PRUNE_MARKER = update(record_chains).where(record_chains.c.chain == bindparam("of_chain"))


def mark_pruned(connection: Connection, decision_ids: Sequence[str], *, key: ChainKey) -> None:
    """Mark the links of these decisions as pruned, by a signature in each. Call it in the transaction that deletes their rows.

    `key` seals the chains, None if their seals are plain hashes. Pass at most a few hundred ids at a time. If all records at
    the start of a chain are pruned, their links are deleted too and one signed prune marker replaces them.
    """
    sealer = Sealer(key)
    newest = connection.scalar(
        select(func.max(decision_logs.c.created_at)).where(decision_logs.c.decision_id.in_(list(decision_ids)))
    )
    if newest is not None:
        store_prune_horizon(connection, newest, sealer)
    for chain in sorted(_sign_links(connection, record_links.c.decision_id.in_(list(decision_ids)), sealer)):
        _advance_prune_marker(connection, chain, sealer)


def mark_subset_pruned(connection: Connection, which: ColumnElement[bool], newest: datetime, *, key: ChainKey) -> None:
    """Like `mark_pruned`, for all closed decisions that match `which`, however many; the newest of them started at `newest`.

    Where they are the start of a chain, no link is signed: the prune marker replaces the links.
    """
    sealer = Sealer(key)
    store_prune_horizon(connection, newest, sealer)
    # Not the links of decisions that are missing: verification goes on to report those.
    pruned = record_links.c.decision_id.in_(select(decision_logs.c.decision_id).where(which))
    chains = connection.execute(select(record_links.c.chain).where(pruned).distinct()).scalars()
    for chain in sorted(chains):
        _advance_prune_marker(connection, chain, sealer, pruned)
    _sign_links(connection, pruned, sealer)


def store_prune_horizon(connection: Connection, until: datetime, sealer: Sealer) -> None:
    """Store that decisions up to this time may be missing because they were pruned."""
    stored = select(reports_table.c.created_at).where(reports_table.c.report_id == PRUNE_HORIZON).with_for_update()
    row: dict[str, Any] = {"report_id": PRUNE_HORIZON, "kind": PRUNE_HORIZON, "passed": True, "report": {}}
    row["created_at"] = max(until, connection.scalar(stored) or until)
    insert_or_replace(connection, reports_table, [with_seal(connection, reports_table, row, sealer)])


def pruned_until(connection: Connection, sealer: Sealer) -> datetime | None:
    """Return the time up to which decisions may have been pruned; None if the log has no horizon with a valid seal."""
    wanted = select_raw(reports_table).where(reports_table.c.report_id == PRUNE_HORIZON)
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None or not sealer.accepts(row["seal"], lambda candidate: row_seal(reports_table, row, candidate)):
        return None
    return connection.scalar(select(reports_table.c.created_at).where(reports_table.c.report_id == PRUNE_HORIZON))


def _sign_links(connection: Connection, which: ColumnElement[bool], sealer: Sealer) -> set[str]:
    """Mark the links that match `which` as pruned, by a signature in each; return their chains."""
    # The column `cut` has the signature of a pruned link; it is NULL as long as the record is kept.
    unsigned = select(record_links).where(which, record_links.c.cut.is_(None))
    # Ordered: two processes that prune at the same time lock the rows in the same order, so they cannot deadlock.
    links = connection.execute(unsigned.order_by(record_links.c.chain, record_links.c.n)).all()
    signatures = [
        {"of_chain": link.chain, "position": link.n, "cut": sealer.pruned(link.chain, link.n, link.mac, link.decision_id)}
        for link in links
    ]
    if signatures:
        connection.execute(_SIGN_LINK, signatures)
    return {link.chain for link in links}


def _advance_prune_marker(
    connection: Connection, chain: str, sealer: Sealer, pruned: ColumnElement[bool] | None = None
) -> None:
    """Replace the pruned links at the start of a chain, up to the first link that is kept, by its prune marker.

    Links that match `pruned` are taken as pruned, although they have no signature yet.
    """
    is_kept = [record_links.c.chain == chain, record_links.c.cut.is_(None), *([] if pruned is None else [~pruned])]
    kept = select(func.min(record_links.c.n)).where(*is_kept).scalar_subquery()
    newest = select(func.max(record_links.c.n)).where(record_links.c.chain == chain).scalar_subquery()
    first_kept, last = connection.execute(select(kept, newest)).one()
    end = last if first_kept is None else first_kept - 1
    mac = connection.execute(
        select(record_links.c.mac).where(record_links.c.chain == chain, record_links.c.n == end)
    ).scalar_one_or_none()
    if mac is None:
        # The first link is kept, or the link before it is missing: then nothing is deleted, so that verification shows the gap.
        return
    marker = {"cut_n": end, "cut_mac": mac, "cut_signature": sealer.prune_marker(chain, end, mac)}
    connection.execute(_SET_PRUNE_MARKER, {"of_chain": chain, **marker})
    connection.execute(delete(record_links).where(record_links.c.chain == chain, record_links.c.n <= end))
