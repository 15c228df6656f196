"""The tables of tamper evidence: the chains, and the position of each record in its chain."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table

from graph_agent.db import UtcDateTime
from graph_agent.record.tables import metadata

# One row for the chain of each writing thread.
record_chains = Table(
    "record_chains",
    metadata,
    Column("chain", String(36), primary_key=True),
    Column("started_at", UtcDateTime, nullable=False),
    Column("key_id", String(16)),
    # The signed head: how far the chain had grown when its writer last signed it.
    Column("signed_n", Integer, nullable=False),
    Column("signed_mac", String(64), nullable=False),
    Column("signature", String(64), nullable=False),
    # The prune marker: the last position up to which records and links were removed on purpose (0 for none).
    Column("cut_n", Integer, nullable=False, default=0),
    Column("cut_mac", String(64), nullable=False, default=""),
    Column("cut_signature", String(64)),
)

# No foreign key: a link outlives its decision, so that verification can name a decision that was removed.
record_links = Table(
    "record_links",
    metadata,
    Column("chain", String(36), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("decision_id", String(64), nullable=False, unique=True),
    Column("mac", String(64), nullable=False),
    # Set once the record was pruned: the signature that says so.
    Column("cut", String(64)),
)
