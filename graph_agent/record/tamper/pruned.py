"""Signed pruning: a record that is removed on purpose leaves a signature in its chain, so that verification accepts the gap."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, func, select, update

from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.chain_tables import record_chains, record_links

# Parameters are named unlike the columns: an UPDATE binds its new values under the columns' own names.
_SIGN_LINK = update(record_links).where(
    record_links.c.chain == bindparam("of_chain"), record_links.c.n == bindparam("position")
)
_SET_PRUNE_MARKER = update(record_chains).where(record_chains.c.chain == bindparam("of_chain"))


def mark_pruned(connection: Connection, decision_ids: Sequence[str], *, key: ChainKey) -> None:
    """Sign the links of these decisions as pruned. Call it in the transaction that deletes their rows.

    `key` is the key of the chains, None for plain chains. Pass at most a few hundred ids at a time. If all records at the start
    of a chain are pruned, their links are deleted too and one signed prune marker replaces them.
    """
    sealer = Sealer(key)
    unsigned = select(record_links).where(record_links.c.decision_id.in_(list(decision_ids)), record_links.c.cut.is_(None))
    # Ordered: two processes that prune at the same time lock the rows in the same order, so they cannot deadlock.
    links = connection.execute(unsigned.order_by(record_links.c.chain, record_links.c.n)).all()
    if not links:
        return
    signatures = [
        {"of_chain": link.chain, "position": link.n, "cut": sealer.pruned(link.chain, link.n, link.mac, link.decision_id)}
        for link in links
    ]
    connection.execute(_SIGN_LINK, signatures)
    for chain in sorted({link.chain for link in links}):
        _advance_prune_marker(connection, chain, sealer)


def _advance_prune_marker(connection: Connection, chain: str, sealer: Sealer) -> None:
    """Replace the pruned links at the start of a chain, up to the first link that is kept, by its prune marker."""
    kept = (
        select(func.min(record_links.c.n)).where(record_links.c.chain == chain, record_links.c.cut.is_(None)).scalar_subquery()
    )
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
