"""Questions and answers as they are stored, with the MACs that tell who wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import AfterYes
from graph_agent.question.tables import Asks, Evidence, QuestionState, answers
from graph_agent.record.tree.leaves import RecordKey, Sealer

_NEW = (
    "id", "asks", "user_id", "conversation_id", "decision_id", "digest", "call_digest", "rules", "tools", "least", "words",
    "goes_on", "renewals", "renews",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuestion:
    """A question that is to be asked."""

    id: str
    """The nonce of its signed action, which is also the operation key of its first call."""
    asks: Asks
    user_id: str
    """The requester."""
    conversation_id: str
    decision_id: str
    """The decision that asks."""
    subject: dict[str, Any]
    """The signed calls as they were shown, as JSON."""
    digest: str
    """SHA-256 of what was shown, without what changes when it is asked again: every answer names it."""
    call_digest: str
    """SHA-256 of the calls: the same calls have the same."""
    rules: str
    """The digest of the rules under which it is asked."""
    tools: str = ""
    """The digest of the definitions of its tools."""
    least: Evidence = Evidence.ASSERTED
    """The weakest evidence with which an answer counts."""
    words: bool = False
    """True if a typed yes counts; False if only an answer by id does."""
    goes_on: AfterYes = AfterYes.END
    expires_at: datetime
    """By the database's clock."""
    renewals: int = 0
    renews: str | None = None
    """The question that was approved when what its call acts on had changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The final answer of one person to one question."""

    person: str
    yes: bool
    digest: str
    """The digest of the question that the person was shown."""
    role: str = ""
    """The role in which the person answered; empty for the requester."""
    reason: str = ""
    identity: ApproverIdentity = ApproverIdentity.ASSERTED
    signature: str = ""
    answered_at: datetime | None = None
    """By the database's clock; set when it is stored."""

    @property
    def evidence(self) -> Evidence:
        """The evidence for who answered, if the signature is the person's."""
        if self.signature:
            return Evidence.SIGNED
        return Evidence.SIGNED_IN if self.identity is ApproverIdentity.TOKEN else Evidence.ASSERTED


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuestion(NewQuestion):
    """A question whose MAC is valid, with the answers whose MACs are valid."""

    asked: int
    opened_at: datetime
    ended_at: datetime | None
    state: QuestionState
    why: str
    taken_by: str | None
    closed_by: str | None
    answers: tuple[Answer, ...] = field(default=())
    read_at: datetime
    """The time of the database, by which it is `in_time`; if its row was locked, after the wait for the lock."""
    in_time: bool

    @property
    def is_open(self) -> bool:
        """True if it can still be answered by a yes."""
        return self.state is QuestionState.OPEN and self.in_time

    @property
    def state_now(self) -> QuestionState:
        """The state, also if its time is over and nothing has ended it yet."""
        return QuestionState.EXPIRED if self.state is QuestionState.OPEN and not self.in_time else self.state


class Macs:
    """The MACs of questions and answers: which an attacker who can only write to the database cannot add."""

    def __init__(self, record_key: RecordKey) -> None:
        """The MACs are keyed by `record_key`; without one they are plain hashes, which show accidents only."""
        self._sealer = Sealer(record_key)

    def of_question(self, question: NewQuestion, opened_at: datetime) -> list[str]:
        """Return the MAC of what never changes about a question, that of the current key first."""
        facts = [_plain(getattr(question, name)) for name in (*_NEW, "expires_at")]
        return self._sealer.macs("question", *facts, _plain(opened_at), text=canonical_json(question.subject))

    def of_answer(self, question_id: str, answer: Answer, answered_at: datetime) -> list[str]:
        """Return the MAC of an answer, that of the current key first."""
        named = (answer.person, answer.yes, answer.digest, answer.role, answer.identity, answer.signature, answered_at)
        return self._sealer.macs("answer", question_id, *(_plain(one) for one in named), text=answer.reason)

    def read(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[StoredQuestion]:
        """Return the questions of rows with `read_at` and `in_time`, in their order, without those with a wrong MAC."""
        given = self._answers(connection, [row.id for row in rows])
        found = (self._question(row, given.get(row.id, ())) for row in rows)
        return [one for one in found if one is not None]

    def _question(self, row: Row[Any], given: tuple[Answer, ...]) -> StoredQuestion | None:
        columns = row._asdict()
        mac, slot = columns.pop("mac"), columns.pop("slot")
        del slot
        changed = {"least": Evidence(row.least), "why": row.why or "", "in_time": bool(row.in_time)}
        question = StoredQuestion(**{**columns, **changed}, answers=given)
        return question if mac in self.of_question(question, question.opened_at) else None

    def _answers(self, connection: Connection, ids: Iterable[str]) -> dict[str, tuple[Answer, ...]]:
        found: dict[str, tuple[Answer, ...]] = {}
        wanted = select(answers).where(answers.c.question_id.in_(list(ids)))
        for row in connection.execute(wanted.order_by(answers.c.answered_at, answers.c.person)):
            answer = Answer(
                person=row.person,
                yes=row.yes,
                digest=row.digest,
                role=row.role,
                reason=row.reason,
                identity=row.identity,
                signature=row.signature,
                answered_at=row.answered_at,
            )
            if row.mac in self.of_answer(row.question_id, answer, row.answered_at):
                found[row.question_id] = (*found.get(row.question_id, ()), answer)
        return found


def new_columns(question: NewQuestion) -> dict[str, Any]:
    """Return the columns of a question that never change, without its times."""
    return {**{name: getattr(question, name) for name in _NEW}, "subject": question.subject}


def _plain(value: Any) -> str | int:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return value if isinstance(value, int) else str(value or "")
