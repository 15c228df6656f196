"""Queries of conversations and their messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, bindparam, or_, select

from graph_agent.chat.conversations.confirmations import conversation_of, open_questions, shown_state
from graph_agent.chat.conversations.tables import QuestionState, conversations, messages
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.authors import TextAuthors
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import DecisionType, PendingAction

_FIND = select(conversations).where(conversations.c.id == bindparam("conversation"))


class ConversationSummary(Frozen):
    """A conversation in a list; `title` is the beginning of its first message."""

    id: str
    title: str
    created_at: UtcDatetime
    updated_at: UtcDatetime


class StoredMessage(Frozen):
    """A message as users see it. Receipts (`effects`) and `notices` are shown beside an assistant's words."""

    id: str
    role: Literal["user", "assistant"]
    content: str
    effects: list[str]
    notices: list[str]
    authors: TextAuthors | None
    """The authors of an assistant's texts; None if they were not recorded, and for what a user wrote."""
    decision_id: str
    decision_type: DecisionType | None
    """With an assistant's message: the type of the decision it replied with, if it is known."""
    confirmed: bool
    """True if the turn first did what the user had confirmed, and then went on."""
    approval: str | None
    """The id of the request for the approval of other people with which the turn ended: no yes of the user answers it."""
    question: QuestionState | None
    """The state of the question that the message asks; None if it asks none. Only an open one can be answered."""
    created_at: UtcDatetime


class ConversationPage(Frozen):
    """A page of conversations, the last used first."""

    conversations: list[ConversationSummary]
    has_more: bool


class Conversation(ConversationSummary):
    """A conversation with its latest messages, oldest first, and its pending action."""

    messages: list[StoredMessage]
    has_more: bool
    """True if there are older messages."""
    pending_action: PendingAction | None


class OpenConfirmation(Frozen):
    """A question that waits for the user's yes or no, and the conversation in which it was asked."""

    conversation_id: str
    title: str
    """The title of the conversation."""
    pending_action: PendingAction


class OpenConfirmations(Frozen):
    """The questions that wait for a user, in any conversation: the one that expires next first."""

    confirmations: list[OpenConfirmation]
    has_more: bool


class ConversationStore:
    """Reads conversations. Raises `ServiceError`: SERVICE_UNAVAILABLE, and the errors of `owned_conversation`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def require(self, user_id: str, conversation_id: str) -> None:
        """Raise `ServiceError` unless the conversation exists and belongs to the user."""
        await self._database.read(lambda connection: owned_conversation(connection, user_id, conversation_id).id)

    async def existing(self, user_id: str, conversation_id: str) -> str | None:
        """Return the id of a conversation if it is one of the user's; None if not, as that of a decision without a chat."""
        try:
            await self.require(user_id, conversation_id)
        except ServiceError as exc:
            if exc.code in (ServiceErrorCode.CONVERSATION_NOT_FOUND, ServiceErrorCode.ACCESS_DENIED):
                return None
            raise
        return conversation_id

    async def asked_in(self, user_id: str, pending_id: str) -> str | None:
        """Return the conversation in which the user was asked about the action; None if there was none."""
        return await self._database.read(lambda connection: conversation_of(connection, pending_id, user_id))

    async def open_confirmations(self, user_id: str, now: datetime, limit: int = 50) -> OpenConfirmations:
        """Return up to `limit` questions that the user can answer at the time `now`, in any conversation."""
        rows = await self._database.read(lambda connection: open_questions(connection, user_id, now))
        found = [OpenConfirmation(conversation_id=row.id, title=row.title, pending_action=row.pending) for row in rows]
        waiting = [one for one in found if one.pending_action.can_be_answered(now)]
        return OpenConfirmations(confirmations=waiting[:limit], has_more=len(waiting) > limit)

    async def page(self, user_id: str, limit: int = 50, before: str | None = None) -> ConversationPage:
        """Return up to `limit` conversations of a user: those after the conversation `before` in the list."""
        table = conversations.c

        def read_page(connection: Connection) -> list[Row[Any]]:
            wanted = select(table.id, table.title, table.created_at, table.updated_at).where(table.user_id == user_id)
            if before is not None:
                last = owned_conversation(connection, user_id, before)
                older = and_(table.updated_at == last.updated_at, table.id < last.id)
                wanted = wanted.where(or_(table.updated_at < last.updated_at, older))
            ordered = wanted.order_by(table.updated_at.desc(), table.id.desc()).limit(limit + 1)
            return list(connection.execute(ordered))

        rows = await self._database.read(read_page)
        listed = [ConversationSummary.model_validate(dict(row._mapping)) for row in rows[:limit]]
        return ConversationPage(conversations=listed, has_more=len(rows) > limit)

    async def one(
        self, user_id: str, conversation_id: str, now: datetime, limit: int = 100, before: str | None = None
    ) -> Conversation:
        """Return a conversation at the time `now` with its last `limit` messages, or the last ones before `before`."""
        table = messages.c

        def read_conversation(connection: Connection) -> tuple[Row[Any], list[Row[Any]]]:
            conversation = owned_conversation(connection, user_id, conversation_id)
            stored = StoredMessage.model_fields.keys() - {"question"} | {"question_id", "question_state"}
            columns = [table[name] for name in sorted(stored)]
            wanted = select(*columns).where(table.conversation_id == conversation.id)
            if before is not None:
                number = select(table.number).where(table.id == before, table.conversation_id == conversation.id)
                wanted = wanted.where(table.number < number.scalar_subquery())
            return conversation, list(connection.execute(wanted.order_by(table.number.desc()).limit(limit + 1)))

        conversation, rows = await self._database.read(read_conversation)
        waiting = None if conversation.pending is None else PendingAction.model_validate(conversation.pending)
        shown = [_message(row, waiting, now) for row in rows[:limit]]
        own = {name: conversation._mapping[name] for name in ConversationSummary.model_fields}
        return Conversation(**own, messages=shown[::-1], has_more=len(rows) > limit, pending_action=conversation.pending)


def _message(row: Row[Any], waiting: PendingAction | None, now: datetime) -> StoredMessage:
    found = dict(row._mapping)
    question = shown_state(found.pop("question_state"), found.pop("question_id"), waiting, now)
    lists = {"effects": row.effects or [], "notices": row.notices or [], "confirmed": bool(row.confirmed)}
    return StoredMessage.model_validate({**found, **lists, "question": question})


def owned_conversation(connection: Connection, user_id: str, conversation_id: str) -> Row[Any]:
    """Return the conversation's row. Raises `ServiceError`: CONVERSATION_NOT_FOUND, or ACCESS_DENIED for another user's."""
    found = connection.execute(_FIND, {"conversation": conversation_id}).one_or_none()
    if found is None:
        raise ServiceError(ServiceErrorCode.CONVERSATION_NOT_FOUND, "There is no such conversation.")
    if found.user_id != user_id:
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This conversation belongs to another user.")
    return found
