"""Reads questions with the titles of their conversations, and withdraws those to requesters."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from graph_agent.chat.conversations.tables import conversations
from graph_agent.db import Database
from graph_agent.question import inbox
from graph_agent.question.approvals import error_of
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks
from graph_agent.question.transitions import QuestionRefusedError, Questions

Titles = dict[str, str]
"""The titles of conversations by id."""


class QuestionStore:
    """The questions of a database. Methods raise `ServiceError` SERVICE_UNAVAILABLE if it does not answer."""

    def __init__(self, database: Database, questions: Questions) -> None:
        self._database = database
        self._questions = questions

    async def page(
        self, which: inbox.Which, user_id: str, roles: Sequence[str], after: inbox.Key | None, size: int
    ) -> tuple[inbox.Page, Titles, int]:
        """Return a page of a list, the titles of conversations, and the number of questions that wait for the user."""

        def read(connection: Connection) -> tuple[inbox.Page, Titles, int]:
            page = inbox.PAGES[which](self._questions, connection, user_id, roles, after, size)
            waiting = inbox.count_waiting_for(self._questions, connection, user_id, roles)
            return page, _titles(connection, page.questions), waiting

        return await self._database.read(read)

    async def find_own(self, question_id: str, user_id: str) -> tuple[StoredQuestion | None, str]:
        """Return a question to this user for a yes, with the title of its conversation; None for any other question."""

        def find(connection: Connection) -> tuple[StoredQuestion | None, str]:
            found = self._questions.find(connection, question_id)
            if found is None or found.asks is not Asks.REQUESTER or found.user_id != user_id:
                return None, ""
            return found, _titles(connection, [found]).get(found.conversation_id, "")

        return await self._database.read(find)

    async def find_asked(self, decision_id: str, user_id: str) -> StoredQuestion | None:
        """Return the question that a decision of this user has asked; None if it asked none, or is another user's."""
        return await self._database.read(lambda connection: self._questions.find_asked(connection, decision_id, user_id))

    async def cancel(self, question_id: str, user_id: str) -> StoredQuestion:
        """Withdraw a question to this user. Raises `ServiceError`: QUESTION_NOT_FOUND, QUESTION_CLOSED."""

        def cancel_now(connection: Connection) -> StoredQuestion:
            try:
                return self._questions.cancel(connection, question_id, user_id, Asks.REQUESTER)
            except QuestionRefusedError as refused:
                raise error_of(refused) from refused

        return await self._database.write(cancel_now)


def _titles(connection: Connection, found: Sequence[StoredQuestion]) -> Titles:
    named = {one.conversation_id for one in found if one.asks is Asks.REQUESTER}
    if not named:
        return {}
    wanted = select(conversations.c.id, conversations.c.title).where(conversations.c.id.in_(named))
    return {row.id: row.title for row in connection.execute(wanted)}
