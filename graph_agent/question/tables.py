"""The tables of questions. Their constraints hold what must be true of every question, whichever code writes it."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum, StrEnum

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from graph_agent.db import JsonText, UtcDateTime, enum_by_value, new_metadata
from graph_agent.models.approval import MAX_OPEN_REQUESTS, MAX_RENEWALS, ApproverIdentity
from graph_agent.models.decision import MAX_TIMES_ASKED, AfterYes

TOLERANCE = timedelta(minutes=1)
"""A question that was opened later than this from now was opened before the database's clock was set back: it is late."""


class Asks(StrEnum):
    """The people whom a question asks."""

    REQUESTER = "requester"
    """The user whose call it is, for a yes."""
    OTHERS = "others"
    """Other people than that user, for their approval."""


class QuestionState(StrEnum):
    """OPEN, then exactly one of the others, for ever."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    REPLACED = "replaced"
    """Another message or question came in its place."""
    CANCELLED = "cancelled"
    """The requester withdrew it."""
    EXPIRED = "expired"
    VOID = "void"
    """It could not be asked, or the rules no longer permit its call."""


class Evidence(IntEnum):
    """The evidence for who answered: a greater one counts where a smaller one does."""

    ASSERTED = 1
    SIGNED_IN = 2
    SIGNED = 3
    """Signed with the person's own key."""


metadata = new_metadata()

_OPEN = text("state = 'open'")
_ONE_WAITS = text("state = 'open' AND asks = 'requester'")
_OTHERS_OPEN = text("state = 'open' AND asks = 'others'")
_DENIED = text("state = 'denied'")

questions = Table(
    "questions",
    metadata,
    # The id of the signed action: its nonce, and the operation key of its first call.
    Column("id", String(255), primary_key=True),
    Column("asks", enum_by_value(Asks, "asks"), nullable=False),
    # The requester.
    Column("user_id", String(255), nullable=False),
    # Without a foreign key, because the conversation of a decision without a chat has no row.
    Column("conversation_id", String(255), nullable=False),
    # The decision that asked.
    Column("decision_id", String(64), nullable=False),
    # The signed calls as they were shown, and the digest that every answer names.
    Column("subject", JsonText, nullable=False),
    Column("digest", String(64), nullable=False),
    # The same calls have the same.
    Column("call_digest", String(64), nullable=False),
    # The digests of the rules, and of the definitions of the tools, under which it was asked.
    Column("rules", String(64), nullable=False),
    Column("tools", String(64), nullable=False),
    # The `Evidence` that an answer needs to count.
    Column("least", Integer, nullable=False),
    # True if a typed yes counts; False if only an answer by id does.
    Column("words", Boolean, nullable=False),
    Column("goes_on", enum_by_value(AfterYes, "goes_on"), nullable=False),
    Column("asked", Integer, nullable=False),
    Column("renewals", Integer, nullable=False),
    # The question that was approved when what its call acts on had changed.
    Column("renews", ForeignKey("questions.id"), unique=True),
    # One of the places that a user has for questions to others.
    Column("slot", Integer),
    Column("opened_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("state", enum_by_value(QuestionState, "state"), nullable=False),
    # For VOID: why, as a clause.
    Column("why", Text),
    # The running decision that reads the requester's answer.
    Column("taken_by", String(64)),
    # The decision that ended it, or that says how it ended.
    Column("closed_by", String(64)),
    # Of everything that does not change.
    Column("mac", String(64), nullable=False),
    CheckConstraint(f"least BETWEEN {min(Evidence)} AND {max(Evidence)}", name="least_is_evidence"),
    CheckConstraint(f"asked BETWEEN 1 AND {MAX_TIMES_ASKED}", name="asked_at_most"),
    CheckConstraint(f"renewals BETWEEN 0 AND {MAX_RENEWALS}", name="renewed_at_most"),
    CheckConstraint("(renewals > 0) = (renews IS NOT NULL)", name="renews_iff_renewed"),
    CheckConstraint(f"slot BETWEEN 1 AND {MAX_OPEN_REQUESTS}", name="slot_is_one_of_few"),
    # A renewal needs no place: others must not keep an approved call from being asked about again.
    CheckConstraint("(slot IS NOT NULL) = (state = 'open' AND asks = 'others' AND renewals = 0)", name="slot_while_open"),
    CheckConstraint("(state = 'open') = (ended_at IS NULL)", name="ended_iff_not_open"),
    CheckConstraint("state <> 'open' OR closed_by IS NULL", name="open_is_not_closed"),
    CheckConstraint("state <> 'approved' OR closed_by IS NOT NULL", name="approved_by_its_decision"),
    CheckConstraint("asks = 'requester' OR taken_by IS NULL", name="only_the_requesters_are_taken"),
    # What an answer names as one.
    UniqueConstraint("id", "asks", "user_id", "digest"),
    # One decision closes at most one question.
    UniqueConstraint("closed_by"),
    Index("uq_questions_one_waits", "conversation_id", unique=True, sqlite_where=_ONE_WAITS, postgresql_where=_ONE_WAITS),
    Index("uq_questions_slot", "user_id", "slot", unique=True, sqlite_where=_OTHERS_OPEN, postgresql_where=_OTHERS_OPEN),
    Index("uq_questions_call", "user_id", "call_digest", unique=True, sqlite_where=_OTHERS_OPEN, postgresql_where=_OTHERS_OPEN),
    Index("ix_questions_denied", "user_id", "call_digest", "conversation_id", sqlite_where=_DENIED, postgresql_where=_DENIED),
    Index("ix_questions_user_id_opened_at", "user_id", "opened_at", "id"),
    Index("ix_questions_open", "user_id", "expires_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    Index("ix_questions_ended_at", "ended_at", "id"),
    Index("ix_questions_conversation_id", "conversation_id", "opened_at"),
)

# What each person has answered: once, in one role, about exactly what was shown.
answers = Table(
    "answers",
    metadata,
    Column("question_id", String(255), primary_key=True),
    Column("person", String(255), primary_key=True),
    Column("asks", enum_by_value(Asks, "asks"), nullable=False),
    Column("requester", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("yes", Boolean, nullable=False),
    Column("role", String(255), nullable=False),
    Column("reason", Text, nullable=False),
    Column("identity", enum_by_value(ApproverIdentity, "identity"), nullable=False),
    Column("evidence", Integer, nullable=False),
    Column("signature", Text, nullable=False),
    Column("answered_at", UtcDateTime, nullable=False),
    Column("mac", String(64), nullable=False),
    CheckConstraint(f"evidence BETWEEN {min(Evidence)} AND {max(Evidence)}", name="evidence"),
    CheckConstraint("(asks = 'requester') = (person = requester)", name="only_those_who_are_asked"),
    ForeignKeyConstraint(
        ["question_id", "asks", "requester", "digest"],
        ["questions.id", "questions.asks", "questions.user_id", "questions.digest"],
    ),
)

# Whom the open questions ask: `user:ann`, `role:finance`. It makes the inbox of a person a range of an index.
audience = Table(
    "audience",
    metadata,
    Column("who", String(300), primary_key=True),
    Column("opened_at", UtcDateTime, primary_key=True),
    Column("question_id", ForeignKey("questions.id"), primary_key=True),
    Index("ix_audience_question_id", "question_id"),
)
