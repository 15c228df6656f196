"""Signed chain heads: the last seal of every chain at one time, to be kept outside the database.

A chain proves that nothing inside it was changed. It cannot prove that no records are missing at its end, or that no whole
chain is missing: what is left is still in order. A copy of the heads, kept where an attacker of the database cannot change it,
proves that too, up to the time it was taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError
from sqlalchemy import Connection, func, select

from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.chain_tables import record_chains, record_links
from graph_agent.record.sealed_rows import read_tally
from graph_agent.record.statements import read

MAX_CHARACTERS = 16 * 1024 * 1024
"""Maximum size of a heads file: about 100,000 chains."""


class ChainHead(Frozen):
    """The head of one chain: its length and its last seal."""

    chain: str
    n: int = Field(ge=0)
    mac: str


class SignedHeads(Frozen):
    """The heads of all chains at one time, signed."""

    type: Literal["heads"] = "heads"
    at: UtcDatetime
    heads: list[ChainHead]
    rows: int | None = None
    """The number of baselines, reports and settlements that had been added; None in files of earlier versions."""
    key_id: str | None = None
    signature: str = ""

    def signed(self, sealer: Sealer) -> SignedHeads:
        """Return a copy with the signature of `sealer`."""
        unsigned = self.replace(key_id=sealer.key_id)
        return unsigned.replace(signature=sealer.compute("heads", text=unsigned._signed_text()))

    def is_signed_by(self, sealer: Sealer) -> bool:
        """True if the signature is that of `sealer` over exactly these heads."""
        return sealer.accepts(self.signature, lambda one: one.compute("heads", text=self._signed_text()))

    def to_text(self) -> str:
        """Return the content of a heads file."""
        return canonical_json(self.to_json()) + "\n"

    @classmethod
    def from_text(cls, text: str) -> SignedHeads:
        """Parse a heads file. Raises `ServiceError` INVALID_FORMAT."""
        if len(text) > MAX_CHARACTERS:
            raise ServiceError(ServiceErrorCode.INVALID_FORMAT, "the file is too large to contain signed chain heads")
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise ServiceError(ServiceErrorCode.INVALID_FORMAT, "the file does not contain signed chain heads") from None

    def _signed_text(self) -> str:
        signed = {**self.to_json(), "signature": ""}
        if self.rows is None:
            # Heads from before the tally existed were signed without this field.
            del signed["rows"]
        return canonical_json(signed)


async def sign_heads(database: Database, key: ChainKey, at: datetime) -> SignedHeads:
    """Read the current heads of all chains, and the number of sealed rows, and sign them."""
    sealer = Sealer(key)
    heads, tally = await read(database, lambda connection: (current_heads(connection), read_tally(connection, sealer)))
    return SignedHeads(at=at, heads=heads, rows=None if tally is None else tally.added).signed(sealer)


def current_heads(connection: Connection) -> list[ChainHead]:
    """Return the head of every chain, ordered by the start of the chains.

    A chain whose links were all pruned ends at its prune marker.
    """
    last = (
        select(func.max(record_links.c.n))
        .where(record_links.c.chain == record_chains.c.chain)
        .correlate(record_chains)
        .scalar_subquery()
    )
    ends = select(record_chains.c.chain, record_chains.c.cut_n, record_chains.c.cut_mac, last.label("last")).subquery()
    heads = (
        select(ends.c.chain, ends.c.cut_n, ends.c.cut_mac, ends.c.last, record_links.c.mac)
        .join_from(ends, record_chains, record_chains.c.chain == ends.c.chain)
        .outerjoin(record_links, (record_links.c.chain == ends.c.chain) & (record_links.c.n == ends.c.last))
        .order_by(record_chains.c.started_at, ends.c.chain)
    )
    return [
        ChainHead(chain=row.chain, n=row.cut_n, mac=row.cut_mac)
        if row.last is None
        else ChainHead(chain=row.chain, n=row.last, mac=row.mac)
        for row in connection.execute(heads)
    ]
