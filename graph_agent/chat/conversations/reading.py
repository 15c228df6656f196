"""Queries of conversations and their messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import BindParameter, ColumnElement, Connection, Row, and_, bindparam, or_, select

from graph_agent.chat.conversations.tables import Role, conversations, messages
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.approval import ApprovalState
from graph_agent.models.authors import TextAuthor, TextAuthors
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.card import Card
from graph_agent.models.decision import DecisionType, PendingAction
from graph_agent.models.record import OperationState
from graph_agent.models.said import SaidCall
from graph_agent.question.approvals import ApprovalStore
from graph_agent.question.confirmations import CARD_STATES, action_in, action_of
from graph_agent.question.tables import Asks, QuestionState, questions
from graph_agent.question.transitions import Questions
from graph_agent.record.mandates import find_mandate
from graph_agent.record.operations import undone_by
from graph_agent.record.tables import call_operations
from graph_agent.reply.fixed import not_done
from graph_agent.words.cards import AskedOthers, Followed, card_of, card_of_request
from graph_agent.words.said import brief_of

_ASKED = [questions.c[name].label(f"question_{name}") for name in ("state", "subject", "ended_at", "closed_by")]
_of_these: BindParameter[str] = bindparam("decisions", expanding=True)
_REPLIES = select(messages.c.decision_id, messages.c.calls, messages.c.approval).where(
    messages.c.decision_id.in_(_of_these), messages.c.role == Role.ASSISTANT
)
_OPERATIONS = select(call_operations.c.decision_id, call_operations.c.sequence, call_operations.c.state).where(
    call_operations.c.decision_id.in_(_of_these)
)
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
    card: Card | None
    """The question that the message asks, and what became of it.

    None if it asks none, one that a later message has asked again, or one that is not kept any more.
    """
    in_card: bool
    """True if the card of a question says all of the message: a client with cards does not show it again."""
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


class ConversationStore:
    """Reads conversations. Raises `ServiceError`: SERVICE_UNAVAILABLE, and the errors of `owned_conversation`."""

    def __init__(self, database: Database, questions: Questions, approvals: ApprovalStore | None = None) -> None:
        """`questions` are those to the users of the conversations, and `approvals` their requests to others."""
        self._database = database
        self._questions = questions
        self._approvals = approvals

    async def require(self, user_id: str, conversation_id: str) -> None:
        """Raise `ServiceError` unless the conversation exists and belongs to the user."""
        await self._database.read(lambda connection: owned_conversation(connection, user_id, conversation_id).id)

    async def existing(self, user_id: str, conversation_id: str) -> str | None:
        """Return the id of a conversation if it is one of the user's; None if not, as that of a decision without a chat."""
        return await self._database.read(lambda connection: existing_conversation(connection, user_id, conversation_id))

    async def waiting(self, user_id: str, conversation_id: str) -> PendingAction | None:
        """Return the action that waits for the user in a conversation, and can be answered now; None if there is none."""

        def find(connection: Connection) -> PendingAction | None:
            owned_conversation(connection, user_id, conversation_id)
            waiting = self._questions.find_waiting(connection, conversation_id)
            return action_of(waiting) if waiting is not None and waiting.is_open else None

        return await self._database.read(find)

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

    async def one(self, user_id: str, conversation_id: str, limit: int = 100, before: str | None = None) -> Conversation:
        """Return a conversation with its last `limit` messages, or the last ones before `before`."""
        table = messages.c

        def read_conversation(connection: Connection) -> tuple[Row[Any], list[StoredMessage], bool, PendingAction | None]:
            conversation = owned_conversation(connection, user_id, conversation_id)
            columns = [table[name] for name in sorted(StoredMessage.model_fields.keys() - {"card"})]
            asked = (table.question_id.label("asks"), *_ASKED, self._questions.in_time.label("question_in_time"))
            # Its user and its kind, because any process can write the id of another question to a message.
            own = (questions.c.id == table.question_id, questions.c.user_id == user_id, questions.c.asks == Asks.REQUESTER)
            joined = messages.outerjoin(questions, and_(*own))
            wanted = select(*columns, *asked).select_from(joined).where(table.conversation_id == conversation.id)
            if before is not None:
                number = select(table.number).where(table.id == before, table.conversation_id == conversation.id)
                wanted = wanted.where(table.number < number.scalar_subquery())
            rows: list[Row[Any]] = list(connection.execute(wanted.order_by(table.number.desc()).limit(limit + 1)))
            waiting = self._questions.find_waiting(connection, conversation.id)
            approved = [row.question_closed_by for row in rows if row.question_state is QuestionState.APPROVED]
            requests = self._requests(connection, user_id, [row.approval for row in rows if row.approval is not None])
            ended = [one.closed_by for one in requests.values() if one.state is ApprovalState.APPROVED and one.closed_by]
            followed, last = _followed(connection, [*approved, *ended]), _last_asking(rows)
            followed |= _plans(connection, rows, followed, self._database.time())
            others = {key: replace(one, followed=followed.get(one.closed_by or "")) for key, one in requests.items()}
            dropped = _dropped(row for row in rows[:limit] if row.id in last)
            shown = _in_cards([_message(row, followed, others, has_card=row.id in last) for row in rows[:limit]], dropped)
            return conversation, shown[::-1], len(rows) > limit, None if waiting is None else action_of(waiting)

        conversation, shown, has_more, pending = await self._database.read(read_conversation)
        own = {name: conversation._mapping[name] for name in ConversationSummary.model_fields}
        return Conversation(**own, messages=shown, has_more=has_more, pending_action=pending)

    def _requests(self, connection: Connection, user_id: str, request_ids: Sequence[str]) -> dict[str, AskedOthers]:
        stored = {} if self._approvals is None else self._approvals.of_user(connection, user_id, request_ids)
        return {
            key: AskedOthers(
                request=one.request,
                state=ApprovalState.EXPIRED if one.state is ApprovalState.OPEN and not one.in_time else one.state,
                answers=one.answers,
                why=one.why,
                ended_at=one.ended_at,
                closed_by=one.closing_decision,
            )
            for key, one in stored.items()
        }


def _in_cards(shown: Iterable[StoredMessage], dropped: Mapping[str, str]) -> list[StoredMessage]:
    """Return the messages without what a card among them says: whole messages are marked, and notices left out.

    The card of a request for approval says its end, that of an undo what was asked for, and one that was set aside its notice.
    """
    found = list(shown)
    said = {one: message.card for message in found if message.card and message.card.request for one in message.card.says}
    undoing = {message.decision_id for message in found if message.card and any(one.said.undoes for one in message.card.calls)}
    return [_without_repetition(message, said.get(message.decision_id), undoing, dropped) for message in found]


def _without_repetition(
    message: StoredMessage, said: Card | None, undoing: Collection[str], dropped: Mapping[str, str]
) -> StoredMessage:
    by_code = message.authors is not None and message.authors.message is TextAuthor.CODE
    if by_code and message.role == "user" and message.decision_id in undoing:
        return message.replace(in_card=True)
    if (notice := dropped.get(message.decision_id)) in message.notices:
        message = message.replace(notices=[one for one in message.notices if one != notice])
    if said is None or not (by_code or message.role == "assistant"):
        return message
    own = None if message.card is not None and message.card.request == said.request else message.card
    return message.replace(in_card=own is None, card=own)


def _dropped(rows: Iterable[Row[Any]]) -> dict[str, str]:
    """Return the notices about the questions of these messages that a later message has set aside, by its decision."""
    replaced = [row for row in rows if row.question_state is QuestionState.REPLACED and row.question_closed_by is not None]
    return {row.question_closed_by: not_done(brief_of(action_in(row.question_subject))) for row in replaced}


def _last_asking(rows: Iterable[Row[Any]]) -> set[str]:
    """Return the ids of the messages that have asked their question last; `rows` are the newest first."""
    last: dict[str, str] = {}
    for row in rows:
        if row.asks is not None:
            last.setdefault(row.asks, row.id)
    return {*last.values()}


def _message(
    row: Row[Any], followed: Mapping[str, Followed], others: Mapping[str, AskedOthers], *, has_card: bool
) -> StoredMessage:
    found = dict(row._mapping)
    del found["asks"]
    asked = {name: found.pop(f"question_{name}") for name in ("state", "subject", "ended_at", "closed_by", "in_time")}
    lists = {"effects": row.effects or [], "notices": row.notices or []}
    flags = {name: bool(found[name]) for name in ("confirmed", "in_card")}
    card = _card(asked, followed) if has_card else None
    request = others.get(row.approval if card is None else card.request or "")
    # Where one of several calls waits for others, they have a card of their own.
    if request is not None and (card is None or len(card.calls) == 1):
        card = card_of_request(request, card)
    return StoredMessage.model_validate({**found, **lists, **flags, "card": card})


def _card(asked: Mapping[str, Any], followed: Mapping[str, Followed]) -> Card | None:
    if (state := asked["state"]) is None:
        return None
    if state is QuestionState.OPEN and not asked["in_time"]:
        state = QuestionState.EXPIRED
    after = followed.get(asked["closed_by"]) if state is QuestionState.APPROVED else None
    answered_in = asked["closed_by"] if state in (QuestionState.APPROVED, QuestionState.DENIED) else None
    times = {"answered_at": asked["ended_at"], "answered_in": answered_in}
    return card_of(action_in(asked["subject"]), CARD_STATES[state], **times, followed=after)


def _followed(connection: Connection, decision_ids: Sequence[str]) -> dict[str, Followed]:
    """Return what the turns that have followed a yes have stored, by their ids."""
    if not decision_ids:
        return {}
    ids = {"decisions": list(decision_ids)}
    replies = {row.decision_id: row for row in connection.execute(_REPLIES, ids)}
    states: defaultdict[str, dict[int, OperationState]] = defaultdict(dict)
    for row in connection.execute(_OPERATIONS, ids):
        states[row.decision_id][row.sequence] = row.state
    found = {}
    for decision_id in decision_ids:
        reply = replies.get(decision_id)
        said = [] if reply is None else map(SaidCall.model_validate, reply.calls or [])
        found[decision_id] = Followed(
            ended=reply is not None,
            calls={one.sequence: one for one in said},
            operations=states[decision_id],
            undone=frozenset(undone_by(connection, decision_id)) if decision_id in states else frozenset(),
            request=None if reply is None else reply.approval,
        )
    return found


def _plans(
    connection: Connection, rows: Iterable[Row[Any]], followed: Mapping[str, Followed], time: ColumnElement[datetime]
) -> dict[str, Followed]:
    """Return what has followed each yes to a plan, with the state of that plan."""
    found = {}
    for row in rows:
        after = followed.get(row.question_closed_by or "")
        if after is not None and row.asks is not None and action_in(row.question_subject).plan is not None:
            at = connection.execute(select(time)).scalar_one().astimezone(UTC)
            view = find_mandate(connection, row.asks, at)
            found[row.question_closed_by] = replace(after, plan=None if view is None else view.state)
    return found


def existing_conversation(connection: Connection, user_id: str, conversation_id: str) -> str | None:
    """Return the id of a conversation if it is one of the user's; None if not, as that of a decision without a chat."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    found: str | None = connection.execute(select(conversations.c.id).where(*own)).scalar_one_or_none()
    return found


def owned_conversation(connection: Connection, user_id: str, conversation_id: str) -> Row[Any]:
    """Return the conversation's row. Raises `ServiceError`: CONVERSATION_NOT_FOUND, or ACCESS_DENIED for another user's."""
    found = connection.execute(_FIND, {"conversation": conversation_id}).one_or_none()
    if found is None:
        raise ServiceError(ServiceErrorCode.CONVERSATION_NOT_FOUND, "There is no such conversation.")
    if found.user_id != user_id:
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This conversation belongs to another user.")
    return found
