"""The tables of tamper evidence: the chains there are, and each record's place in one."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from graph_agent.record.tables import Base
from graph_agent.db import UtcDateTime


class RecordChain(Base):
    """One writer's chain.

    `signed_*` says how far it had come when its writer last signed it; `cut_*` how far it was pruned, links and all.
    """

    __tablename__ = "record_chains"

    chain: Mapped[str] = mapped_column(String(36), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    key_id: Mapped[str | None] = mapped_column(String(16))
    signed_n: Mapped[int] = mapped_column(Integer)
    signed_mac: Mapped[str] = mapped_column(String(64))
    signature: Mapped[str] = mapped_column(String(64))
    cut_n: Mapped[int] = mapped_column(Integer, default=0)
    cut_mac: Mapped[str] = mapped_column(String(64), default="")
    cut_signature: Mapped[str | None] = mapped_column(String(64))


class RecordLink(Base):
    """The place of a closed record in its chain. `cut` is the signature that says that the record was pruned on purpose.

    No foreign key: a link outlives its decision, so that it can name one that was removed.
    """

    __tablename__ = "record_links"

    chain: Mapped[str] = mapped_column(String(36), primary_key=True)
    n: Mapped[int] = mapped_column(Integer, primary_key=True)
    decision_id: Mapped[str] = mapped_column(String(64), unique=True)
    mac: Mapped[str] = mapped_column(String(64))
    cut: Mapped[str | None] = mapped_column(String(64))
