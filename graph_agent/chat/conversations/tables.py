"""The tables of the conversation database."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, String, Table, Text, text

from graph_agent.db import JsonText, UtcDateTime, UuidText, enum_by_value, new_metadata
from graph_agent.models.decision import DecisionType


class TurnState(StrEnum):
    """RUNNING: claimed until the lease expires. DONE: the answer is stored."""

    RUNNING = "running"
    DONE = "done"


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


_RUNNING = text("state = 'running'")

metadata = new_metadata()

conversations = Table(
    "conversations",
    metadata,
    Column("id", UuidText, primary_key=True),
    Column("user_id", String(255), nullable=False),
    Column("title", String(80), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index("ix_conversations_user_id_updated_at", "user_id", "updated_at", "id"),
)

turns = Table(
    "turns",
    metadata,
    # The decision's id.
    Column("id", UuidText, primary_key=True),
    Column("user_id", String(255), nullable=False),
    Column("idem_key", String(255)),
    Column("body_digest", String(64), nullable=False),
    Column("conversation_id", ForeignKey("conversations.id"), nullable=False),
    Column("state", enum_by_value(TurnState, "state"), nullable=False),
    Column("owner", UuidText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_until", UtcDateTime, nullable=False),
    Column("answer", JsonText),
    Column("created_at", UtcDateTime, nullable=False),
    # True if the user has stopped the turn. Its process reads it when it renews the lease.
    Column("stopped", Boolean),
    CheckConstraint("(state = 'done') = (answer IS NOT NULL)", name="answer_iff_done"),
    # NULLs are distinct in a unique index: a turn without a key is never a repetition.
    Index("uq_turns_user_id_idem_key", "user_id", "idem_key", unique=True),
    Index("uq_turns_conversation_id_running", "conversation_id", unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING),
    Index("ix_turns_lease_until_running", "lease_until", sqlite_where=_RUNNING, postgresql_where=_RUNNING),
)

messages = Table(
    "messages",
    metadata,
    # Orders messages with the same timestamp; never leaves the database.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("id", UuidText, nullable=False),
    Column("conversation_id", ForeignKey("conversations.id"), nullable=False),
    Column("role", enum_by_value(Role, "role"), nullable=False),
    Column("content", Text, nullable=False),
    # The receipts to show next to an assistant's text.
    Column("effects", JsonText),
    Column("decision_id", UuidText, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # Set for assistant messages. NULL only in rows older than this column whose decision the migration did not find.
    Column("decision_type", enum_by_value(DecisionType, "decision_type")),
    # True if the turn did what the user had confirmed, and went on. NULL otherwise, also where the type says it.
    Column("confirmed", Boolean),
    # The id of the request for the approval of other people that the decision has opened.
    Column("approval", String(255)),
    # The id of the pending action that the message asks about: that of a question, as long as it is kept.
    Column("question_id", String(255)),
    # Further lines composed by code, such as "Not done: …".
    Column("notices", JsonText),
    # The `TextAuthors` of an assistant's message; NULL if they are not known.
    Column("authors", JsonText),
    # The changes of a turn as people read them, each a `SaidCall`.
    Column("calls", JsonText),
    # True if the card of a question says all of the message. NULL otherwise.
    Column("in_card", Boolean),
    Index("uq_messages_id", "id", unique=True),
    Index("uq_messages_decision_id_role", "decision_id", "role", unique=True),
    Index("ix_messages_conversation_id_number", "conversation_id", "number"),
)

turn_limits = Table(
    "turn_limits",
    metadata,
    Column("user_id", String(255), primary_key=True),
    Column("window_started_at", UtcDateTime, nullable=False),
    Column("turns", Integer, nullable=False),
)
