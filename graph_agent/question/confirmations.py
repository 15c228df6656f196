"""Confirmations: the questions to requesters, each for a yes to one card, which one decision uses up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import RecordUnavailableError
from graph_agent.models.canonical import digest
from graph_agent.models.card import CardState
from graph_agent.models.decision import AnswerState, PendingAction, ShownQuestion
from graph_agent.ports import ConfirmationUse, EndedQuestion
from graph_agent.question.stored import Answer, NewQuestion, StoredQuestion
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.question.transitions import Questions
from graph_agent.record.tree.leaves import RecordKey

_ACTION, _FILES = "action", "files"
_NOT_DIGESTED = {"asked", "created_at", "expires_at", "signature"}
"""The fields of an action that say when and how often it was asked about, and not what."""

_ANSWER_STATES = {
    QuestionState.APPROVED: AnswerState.USED,
    QuestionState.DENIED: AnswerState.USED,
    QuestionState.EXPIRED: AnswerState.EXPIRED,
    QuestionState.CANCELLED: AnswerState.WITHDRAWN,
    QuestionState.OPEN: AnswerState.CURRENT,
}
"""The states of an answer to a question; one that has ended in another way was superseded."""

CARD_STATES = {
    QuestionState.OPEN: CardState.WAITING,
    QuestionState.APPROVED: CardState.WORKING,
    QuestionState.DENIED: CardState.DECLINED,
    QuestionState.REPLACED: CardState.SET_ASIDE,
    QuestionState.CANCELLED: CardState.CANCELLED,
    QuestionState.EXPIRED: CardState.EXPIRED,
    QuestionState.VOID: CardState.VOID,
}
"""The states of questions as cards show them; of an approved one the card says what became of its calls."""


class ConfirmationStore:
    """`Confirmations` in the database, for decisions that belong to no chat. Each use is a commit."""

    def __init__(self, database: Database, *, record_key: RecordKey = None) -> None:
        """`record_key` makes the MACs of the rows."""
        self._questions = Questions(database, record_key=record_key)

    async def consume(self, use: ConfirmationUse) -> bool:
        """Use a confirmation up; see `Confirmations`. Raises `RecordUnavailableError`."""
        # The caller keeps the card, so that nothing is stored before it is used.
        asked = confirmation(use.pending, use.user_id, use.conversation_id, "", {})
        try:
            return await self._questions.database.write(
                lambda connection: self._questions.end_at_once(connection, asked, use.decision_id, answer_of(use))
            )
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the confirmation cannot be marked as used") from exc

    async def ask(self, pending: PendingAction, user_id: str, decision_id: str) -> None:
        """Store the question about a card; see `AskedConfirmations`. Raises `RecordUnavailableError`."""
        # A conversation of its own: several questions of one thread may wait at the same time.
        asked = confirmation(pending, user_id, pending.id, decision_id, {})
        try:
            await self._questions.database.write(lambda connection: self._questions.ask(connection, asked, [f"user:{user_id}"]))
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the question cannot be stored") from exc

    async def ended(self, pending_id: str, user_id: str) -> EndedQuestion | None:
        """Return what has ended a question; see `AskedConfirmations`. Raises `RecordUnavailableError`."""
        try:
            found = await self._questions.database.read(
                lambda connection: find_confirmation(self._questions, connection, pending_id, user_id)
            )
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the question cannot be read") from exc
        if found is None or found.state_now in (QuestionState.OPEN, QuestionState.EXPIRED):
            return None
        return EndedQuestion(found.closed_by)


def confirmation(
    pending: PendingAction, user_id: str, conversation_id: str, decision_id: str, files: Mapping[str, str]
) -> NewQuestion:
    """Return the question to a user about a card, with the `files` of the process that asks."""
    rules = pending.asked_under
    return NewQuestion(
        id=pending.id,
        asks=Asks.REQUESTER,
        user_id=user_id,
        conversation_id=conversation_id,
        decision_id=decision_id,
        subject={_ACTION: pending.to_json(), _FILES: dict(files)},
        digest=_digest(pending),
        call_digest=digest([[call.tool_name, call.arguments] for call in pending.each]),
        rules=digest([rules.constitution, rules.conditions]),
        tools=digest(rules.tools),
        words=not pending.by_id_only,
        goes_on=pending.then,
        expires_at=pending.expires_at,
    )


def ask_again(store: Questions, connection: Connection, pending: PendingAction, decision_id: str) -> None:
    """Give the question about a card back, which was signed anew because it is asked once more."""
    question = store.find(connection, pending.id, lock=True)
    if question is not None:
        store.give_back(connection, pending.id, decision_id, again={**question.subject, _ACTION: pending.to_json()})


def action_of(question: StoredQuestion) -> PendingAction:
    """Return the card of a question to its requester."""
    return action_in(question.subject)


def action_in(subject: Mapping[str, Any]) -> PendingAction:
    """Return the card in the subject of a question to a requester."""
    return PendingAction.model_validate(subject[_ACTION])


def files_of(question: StoredQuestion) -> dict[str, str]:
    """Return the files of the rules of the process that asked, by option."""
    files: dict[str, str] = question.subject[_FILES]
    return files


def answer_of(use: ConfirmationUse) -> Answer | None:
    """Return the answer with which a decision uses a confirmation up; None for neither a yes nor a no."""
    return None if use.yes is None else Answer(person=use.user_id, yes=use.yes, digest=_digest(use.pending))


def find_confirmation(store: Questions, connection: Connection, pending_id: str, user_id: str) -> StoredQuestion | None:
    """Return the question about a card if it was asked of this user; None otherwise."""
    question = store.find(connection, pending_id)
    return question if question is not None and question.asks is Asks.REQUESTER and question.user_id == user_id else None


def answer_state(store: Questions, connection: Connection, pending_id: str, user_id: str, conversation_id: str) -> AnswerState:
    """Return the state of the question about a card, for an answer that names it in a conversation."""
    question = find_confirmation(store, connection, pending_id, user_id)
    if question is None or question.conversation_id != conversation_id:
        return AnswerState.UNKNOWN
    return _ANSWER_STATES.get(question.state_now, AnswerState.SUPERSEDED)


def shown_question(store: Questions, connection: Connection, waiting: StoredQuestion | None) -> ShownQuestion | None:
    """Return the question that a client shows that does not say which: None if it can only be the one that is `waiting`.

    A question that was replaced and has not expired may still be on the screen.
    """
    if waiting is None or not store.has_replaced(connection, waiting.conversation_id):
        return None
    return ShownQuestion()


def _digest(pending: PendingAction) -> str:
    return digest({name: value for name, value in pending.to_json().items() if name not in _NOT_DIGESTED})
