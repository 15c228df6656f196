"""The table of due work."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Integer, String, Table, Text, text

from graph_agent.db import UtcDateTime, new_metadata

metadata = new_metadata()

_NOT_TRIED = text("attempts = 0")

due = Table(
    "due",
    metadata,
    Column("kind", String(32), primary_key=True),
    # What the work is about, such as the id of a question. The handler of the kind reads everything else itself.
    Column("key", String(320), primary_key=True),
    # Which processes can do it: those that serve this lane.
    Column("lane", String(255), nullable=False),
    # The user for whom it is done, so that one user's work does not delay another's; '' for no user.
    Column("user_id", String(255), nullable=False),
    # The end of the lease while a worker does it. NULL if it is stuck: it was tried for the last time.
    Column("due_at", UtcDateTime),
    # When `due_at` was set, by which a clock that was set back is seen.
    Column("set_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    # The token of the worker that does it now.
    Column("taken", String(64)),
    # Why the last attempt failed, in words of ours: nothing that a server has said.
    Column("error", Text),
    CheckConstraint("due_at IS NOT NULL OR taken IS NULL", name="stuck_is_not_taken"),
    Index("ix_due_kind_lane_due_at", "kind", "lane", "due_at"),
    # Finds the last place of a user among the work of a kind that was not tried yet.
    Index(
        "ix_due_kind_user_id_due_at_not_tried",
        "kind",
        "user_id",
        "due_at",
        sqlite_where=_NOT_TRIED,
        postgresql_where=_NOT_TRIED,
    ),
)
