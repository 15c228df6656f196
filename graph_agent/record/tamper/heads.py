"""Where every chain ends, signed: a page to keep outside the database.

A chain shows what was changed inside it. That its end is missing, or that a whole chain is, only somebody can tell who knew.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError
from sqlalchemy import Connection, func, select

from graph_agent.record.chain import Seal
from graph_agent.record.chain_tables import RecordChain, RecordLink
from graph_agent.record.statements import read
from graph_agent.record.tables import table_of
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json

_chains = table_of(RecordChain)
_links = table_of(RecordLink)


class Head(Frozen):
    """How far one chain had come, and the seal it ended with."""

    chain: str
    n: int = Field(ge=0)
    mac: str


class SignedHeads(Frozen):
    """All chains at one time."""

    type: Literal["heads"] = "heads"
    at: UtcDatetime
    heads: list[Head]
    key_id: str | None = None
    signature: str = ""

    def signed(self, seal: Seal) -> SignedHeads:
        told = self.replace(key_id=seal.key_id)
        return told.replace(signature=seal.over("heads", text=told._content()))

    def is_signed_by(self, seal: Seal) -> bool:
        return self.signature == seal.over("heads", text=self._content())

    def to_text(self) -> str:
        """What stands in the file."""
        return canonical_json(self.to_json()) + "\n"

    @classmethod
    def from_text(cls, text: str) -> SignedHeads:
        """Raises `ServiceError` INVALID_FORMAT."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise ServiceError(
                ServiceErrorCode.INVALID_FORMAT, "the file does not hold the heads of the log's chains"
            ) from None

    def _content(self) -> str:
        return canonical_json({**self.to_json(), "signature": ""})


async def sign_heads(database: Database, key: bytes | None, at: datetime) -> SignedHeads:
    """The heads of all chains as they stand, signed."""
    heads = await read(database, current_heads)
    return SignedHeads(at=at, heads=heads).signed(Seal(key))


def current_heads(connection: Connection) -> list[Head]:
    """The end of every chain, in the order they began."""
    last = select(func.max(_links.c.n)).where(_links.c.chain == _chains.c.chain).correlate(_chains).scalar_subquery()
    ends = select(_chains.c.chain, _chains.c.cut_n, _chains.c.cut_mac, last.label("last")).subquery()
    wanted = (
        select(ends.c.chain, ends.c.cut_n, ends.c.cut_mac, ends.c.last, _links.c.mac)
        .join_from(ends, _chains, _chains.c.chain == ends.c.chain)
        .outerjoin(_links, (_links.c.chain == ends.c.chain) & (_links.c.n == ends.c.last))
        .order_by(_chains.c.started_at, ends.c.chain)
    )
    return [
        Head(chain=row.chain, n=row.cut_n, mac=row.cut_mac)
        if row.last is None
        else Head(chain=row.chain, n=row.last, mac=row.mac)
        for row in connection.execute(wanted)
    ]
