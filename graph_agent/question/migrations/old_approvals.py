"""Makes questions of the approval requests of a database from before there were questions.

No migration of Alembic can do it, because the MACs of the rows need the key of the record.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    MetaData,
    Row,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
)

from graph_agent.db import Database, JsonText, UtcDateTime
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.models.approval import MAX_OPEN_REQUESTS, ApprovalAnswer, ApproverIdentity
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalRequest
from graph_agent.question.approvals import question_of
from graph_agent.question.stored import Answer, Macs, NewQuestion, new_columns
from graph_agent.question.tables import Asks, QuestionState, answers, audience, questions
from graph_agent.record.tree.leaves import RecordKey, Sealer

_OLD = MetaData()
_APPROVALS = Table(
    "approvals",
    _OLD,
    *(Column(name, String) for name in ("id", "user_id", "conversation_id", "decision_id", "call_digest", "state", "why")),
    *(Column(name, UtcDateTime) for name in ("created_at", "expires_at", "ended_at")),
    Column("request", JsonText),
    Column("closing_decision", String),
    Column("mac", String),
)
_ANSWERS = Table(
    "approval_answers",
    _OLD,
    *(Column(name, Text) for name in ("approval_id", "approver", "role", "reason", "digest", "identity", "signature", "mac")),
    Column("approve", Boolean),
    Column("answered_at", UtcDateTime),
)
_SEALED = ("id", "user_id", "conversation_id", "decision_id", "call_digest")
_TOO_MANY = "you had more requests open than you may have"


def move_old_approvals(database: Database, record_key: RecordKey) -> int:
    """Make questions of all old requests whose MACs are valid, in one transaction; return their number.

    Those that waited are open questions under the rules that they name. The old tables are removed.
    """
    if not database.read_now(_exist):
        return 0
    return database.write_now(lambda connection: _Move(connection, database, record_key).run())


def _exist(connection: Connection) -> bool:
    return inspect(connection).has_table("approvals")


class _Move:
    def __init__(self, connection: Connection, database: Database, record_key: RecordKey) -> None:
        self._connection = connection
        self._due = DueTable(database)
        self._now = database.time()
        self._sealer, self._macs = Sealer(record_key), Macs(record_key)
        self._open: Counter[str] = Counter()
        self._calls: set[tuple[str, str]] = set()

    def run(self) -> int:
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('old_approvals'))")).close()
        if not _exist(self._connection):
            return 0  # Another process was faster.
        closed: dict[str, str] = {}
        moved = 0
        for row in self._connection.execute(select(_APPROVALS).order_by(_APPROVALS.c.created_at, _APPROVALS.c.id)).all():
            facts = [getattr(row, name) for name in _SEALED]
            sealed = self._sealer.macs("approval request", *facts, text=canonical_json(row.request))
            if row.mac in sealed and (row.state != "approved" or row.closing_decision):
                moved += 1
                self._move(row, closed)
        for name in ("approval_answers", "approvals"):
            self._connection.execute(text(f"DROP TABLE {name}")).close()
        return moved

    def _move(self, row: Row[Any], closed: dict[str, str]) -> None:
        request = ApprovalRequest.model_validate(row.request)
        question = question_of(request, closed.get(request.decision_id))
        state, why, ended_at = QuestionState(row.state), row.why, row.ended_at
        is_first = question.renews is None
        if state is QuestionState.OPEN:
            call = (question.user_id, question.call_digest)
            if call in self._calls or (is_first and self._open[question.user_id] == MAX_OPEN_REQUESTS):
                state, why, ended_at = QuestionState.VOID, _TOO_MANY, self._connection.execute(select(self._now)).scalar_one()
            else:
                self._calls.add(call)
                self._open[question.user_id] += is_first
        waits = state is QuestionState.OPEN
        stored = {
            **new_columns(question),
            "asked": 1,
            "slot": self._open[question.user_id] if waits and is_first else None,
            "opened_at": row.created_at,
            "expires_at": question.expires_at,
            "ended_at": ended_at if waits or ended_at is not None else row.expires_at,
            "state": state,
            "why": why,
            "closed_by": row.closing_decision,
            "mac": self._macs.of_question(question, row.created_at)[0],
        }
        self._connection.execute(insert(questions), [stored]).close()
        if row.closing_decision:
            closed[row.closing_decision] = question.id
        given = self._move_answers(question)
        if waits:
            asked = {"opened_at": row.created_at, "question_id": question.id}
            who = [{"who": f"role:{role}", **asked} for role in request.counted_roles]
            self._connection.execute(insert(audience), who).close()
            if given:
                self._due.put(self._connection, WorkKind.DECIDE, question.id, lane=question.rules, user_id=question.user_id)
        if row.closing_decision is None:
            now = self._connection.execute(select(self._now)).scalar_one()
            left = question.expires_at - now if waits else timedelta()
            self._due.put(self._connection, WorkKind.END, question.id, user_id=question.user_id, after=left)

    def _move_answers(self, question: NewQuestion) -> int:
        moved = 0
        wanted = select(_ANSWERS).where(_ANSWERS.c.approval_id == question.id)
        for row in self._connection.execute(wanted).all():
            answer = Answer(
                person=row.approver,
                yes=row.approve,
                digest=row.digest,
                role=row.role,
                reason=row.reason,
                identity=ApproverIdentity(row.identity),
                signature=row.signature,
            )
            if row.mac not in self._sealer.macs("approval answer", question.id, text=canonical_json(_old_answer(row))):
                continue
            named = ("person", "yes", "digest", "role", "reason", "identity", "evidence", "signature")
            stored = {name: getattr(answer, name) for name in named}
            stored |= {"question_id": question.id, "asks": Asks.OTHERS, "requester": question.user_id}
            mac = self._macs.of_answer(question.id, answer, row.answered_at)[0]
            self._connection.execute(insert(answers), [{**stored, "answered_at": row.answered_at, "mac": mac}]).close()
            moved += 1
        return moved


def _old_answer(row: Row[Any]) -> Any:
    named = ("approver", "approve", "role", "reason", "digest", "identity", "signature", "answered_at")
    return ApprovalAnswer(**{name: getattr(row, name) for name in named}).to_json()
