"""Fixtures: the transitions of questions on a database of each kind, with a manual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.question import inbox
from graph_agent.question.stored import Answer, NewQuestion, StoredQuestion
from graph_agent.question.tables import Asks
from graph_agent.question.transitions import QuestionRefusedError, Questions, Refused

T = TypeVar("T")
LIFETIME = timedelta(hours=1)


class Store:
    """The questions of one process, each transition in a transaction of its own."""

    def __init__(self, database: Database, clock: ManualClock, key: bytes | None = b"key") -> None:
        self.database = database
        self.clock = clock
        self.questions = Questions(database, record_key=key)
        self.asked = 0

    def run(self, name: str, *values: Any, **named: Any) -> Any:
        """Run a transition; return its result, or the reason of its refusal."""
        try:
            return self.database.write_now(lambda connection: getattr(self.questions, name)(connection, *values, **named))
        except QuestionRefusedError as refused:
            return refused.reason

    def new(self, asks: Asks = Asks.OTHERS, user: str = "ann", **fields: Any) -> NewQuestion:
        self.asked += 1
        named = {
            "id": f"q{self.asked}",
            "user_id": user,
            "conversation_id": f"c-{user}",
            "decision_id": f"asking-{self.asked}",
            "subject": {"roles": ["finance"], "n": self.asked},
            "digest": f"digest-{self.asked}",
            "call_digest": f"call-{self.asked}",
            "rules": "rules",
            "expires_at": self.clock.now() + LIFETIME,
        }
        return NewQuestion(asks=asks, **{**named, **fields})

    def ask(self, who: Sequence[str] = ("role:finance",), **fields: Any) -> str:
        """Ask others; return the id, or the reason of the refusal."""
        question = self.new(**fields)
        refused = self.run("ask", question, who)
        return refused if isinstance(refused, Refused) else question.id

    def ask_requester(self, user: str = "ann", **fields: Any) -> str:
        return self.ask((f"user:{user}",), asks=Asks.REQUESTER, user=user, **fields)

    def find(self, question_id: str) -> StoredQuestion:
        found = self.database.read_now(lambda connection: self.questions.find(connection, question_id))
        assert found is not None
        return found

    def state(self, question_id: str) -> str:
        return str(self.find(question_id).state)

    def answered(self, question_id: str, person: str = "bob", *, yes: bool = True, **fields: Any) -> Any:
        """Answer as another person; return the state of the question, or the reason of the refusal."""
        result = self.run("answer", question_id, self.an_answer(question_id, person, yes=yes, **{"role": "finance", **fields}))
        return str(result.state) if isinstance(result, StoredQuestion) else result

    def an_answer(self, question_id: str, person: str, *, yes: bool = True, **fields: Any) -> Answer:
        return Answer(**{"person": person, "yes": yes, "digest": self.find(question_id).digest, **fields})

    def take(self, question_id: str, decision_id: str, user: str = "ann") -> bool:
        return bool(self.run("take", question_id, decision_id, user, f"c-{user}"))

    def use(self, question_id: str, decision_id: str, *, yes: bool = True, **fields: Any) -> bool:
        return bool(self.run("use", question_id, decision_id, self.an_answer(question_id, "ann", yes=yes, **fields)))

    def claim(self, question_id: str, decision_id: str = "closing", needed: int = 1) -> str | None:
        """Claim the closing decision; return the end, None if there is none."""
        closed = self.run("claim", question_id, decision_id, lambda one: sum(each.yes for each in one.answers) >= needed)
        return None if closed is None else str(closed.state)

    def waiting(self, user: str, *roles: str, **fields: Any) -> list[str]:
        return [one.id for one in self.page(user, *roles, **fields).questions]

    def page(self, user: str, *roles: str, **fields: Any) -> inbox.Page:
        return self.database.read_now(lambda connection: inbox.waiting_for(self.questions, connection, user, roles, **fields))

    def sql(self, statement: str) -> Any:
        def run(connection: Any) -> Any:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else result.rowcount

        return self.database.write_now(run)


@pytest.fixture
def open_store(migrated_database: Database, clock: ManualClock) -> Callable[..., Store]:
    """Several simulated processes on one empty database and one clock."""
    migrated_database.clock = clock
    return lambda **fields: Store(migrated_database, clock, **fields)


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
