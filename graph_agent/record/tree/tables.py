"""The tables of the tree. Leaves, nodes, cosignatures and statements are only inserted; the head is one row that changes."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from graph_agent.db import UtcDateTime, enum_by_value
from graph_agent.record.tables import metadata


class LeafKind(StrEnum):
    """The kind of row that a leaf commits to. The values are part of the format of a leaf."""

    DECISION = "decision"
    SETTLEMENT = "settlement"
    REPORT = "report"
    STATEMENT = "statement"
    """A statement of the log about itself, for example which records were removed on purpose."""


_Number = BigInteger().with_variant(Integer, "sqlite")

# Public for ever: a commitment reveals nothing without its salt, which is deleted with its record.
tree_leaves = Table(
    "tree_leaves",
    metadata,
    Column("n", _Number, primary_key=True, autoincrement=False),
    Column("kind", enum_by_value(LeafKind, "kind"), nullable=False),
    Column("commitment", LargeBinary(32), nullable=False),
)

# The roots of the complete subtrees of 256 leaves (level 1), 65,536 leaves (level 2) and so on.
tree_nodes = Table(
    "tree_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("n", _Number, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary(32), nullable=False),
)

# One row, as soon as there is a leaf.
tree_head = Table(
    "tree_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", _Number, nullable=False),
    # The roots of the complete subtrees of the tree, the largest first.
    Column("frontier", LargeBinary, nullable=False),
    # The signed checkpoint.
    Column("note", Text, nullable=False),
)

tree_cosignatures = Table(
    "tree_cosignatures",
    metadata,
    Column("size", _Number, primary_key=True, autoincrement=False),
    Column("witness", String(255), primary_key=True),
    # The checkpoint as the log has signed it, and the witness's signature line.
    Column("note", Text, nullable=False),
    Column("line", Text, nullable=False),
)

tree_statements = Table(
    "tree_statements",
    metadata,
    Column("statement_id", String(64), primary_key=True),
    Column("salt", String(44), nullable=False),
    Column("text", Text, nullable=False),
)

# The row that a leaf commits to: a decision, a settlement, a report or a statement. Deleted with that row.
record_leaves = Table(
    "record_leaves",
    metadata,
    Column("n", _Number, primary_key=True, autoincrement=False),
    Column("kind", enum_by_value(LeafKind, "kind"), nullable=False),
    Column("item", String(255), nullable=False),
    UniqueConstraint("item", "kind"),
)

# Rows that are not in the tree yet, each with the MAC that says that a holder of the key wrote it.
record_pending = Table(
    "record_pending",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("kind", enum_by_value(LeafKind, "kind"), nullable=False),
    Column("item", String(255), nullable=False),
    Column("commitment", LargeBinary(32), nullable=False),
    Column("mac", String(64), nullable=False),
    # Not unique: a row that was copied by hand is reported, and stops nothing.
    Index("ix_record_pending_item", "item", "kind"),
)

# Removals that no statement lists yet: one statement lists those of a day, so that it does not show which belong together.
record_removals = Table(
    "record_removals",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("removed_at", UtcDateTime, nullable=False),
    # The statement that will be, as text: what was changed by hand is not parsed.
    Column("facts", Text, nullable=False),
    Column("mac", String(64), nullable=False),
)
