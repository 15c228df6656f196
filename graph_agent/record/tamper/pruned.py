"""Pruning that the chain knows of: a record that was removed on purpose leaves a signature in its place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, func, select, update

from graph_agent.record.chain import Seal
from graph_agent.record.chain_tables import RecordChain, RecordLink
from graph_agent.record.tables import table_of

_chains = table_of(RecordChain)
_links = table_of(RecordLink)

_MARK = update(_links).where(_links.c.chain == bindparam("of_chain"), _links.c.n == bindparam("place"))
_SHORTEN = update(_chains).where(_chains.c.chain == bindparam("of_chain"))


def record_cut(connection: Connection, decision_ids: Sequence[str], *, key: bytes | None) -> None:
    """Say in the chains that these decisions are pruned; to be called in the transaction that deletes their rows.

    `key` is the one the chains are made with, None for plain ones. At most a few hundred ids at a time. Where a chain's whole
    beginning is pruned its links go too, and one signed cut stands for them all.
    """
    seal = Seal(key)
    wanted = select(_links).where(_links.c.decision_id.in_(list(decision_ids)), _links.c.cut.is_(None))
    links = connection.execute(wanted.order_by(_links.c.chain, _links.c.n)).all()
    if not links:
        return
    marks = [
        {"of_chain": link.chain, "place": link.n, "cut": seal.pruned(link.chain, link.n, link.mac, link.decision_id)}
        for link in links
    ]
    connection.execute(_MARK, marks)
    for chain in sorted({link.chain for link in links}):
        _shorten(connection, chain, seal)


def _shorten(connection: Connection, chain: str, seal: Seal) -> None:
    """Drop the links of a beginning that is pruned without a gap."""
    kept = select(func.min(_links.c.n)).where(_links.c.chain == chain, _links.c.cut.is_(None)).scalar_subquery()
    newest = select(func.max(_links.c.n)).where(_links.c.chain == chain).scalar_subquery()
    first_kept, last = connection.execute(select(kept, newest)).one()
    end = last if first_kept is None else first_kept - 1
    mac = connection.execute(select(_links.c.mac).where(_links.c.chain == chain, _links.c.n == end)).scalar_one_or_none()
    if mac is None:
        return
    cut = {"cut_n": end, "cut_mac": mac, "cut_signature": seal.cut(chain, end, mac)}
    connection.execute(_SHORTEN, {"of_chain": chain, **cut})
    connection.execute(delete(_links).where(_links.c.chain == chain, _links.c.n <= end))
