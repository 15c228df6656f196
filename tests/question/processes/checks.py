"""What must be true of all questions, whichever processes were killed and however the clock was set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from graph_agent.chat.conversations.tables import TurnState, messages, turns
from graph_agent.due.tables import due
from graph_agent.models.record import DecisionRecord, RecordStatus
from graph_agent.models.said import SaidState
from graph_agent.question.tables import Asks, QuestionState, answers, questions
from graph_agent.record.tables import decision_logs, record_blobs
from tests.question.processes.environment import LAX, STRICT, USUAL, Effect, is_met, target_of

_APPROVED = QuestionState.APPROVED


@dataclass
class Outcome:
    """The ends of the questions, and what must not be, each with its number and one example."""

    ends: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def require(self, holds: object, violated: str, example: object) -> None:
        if not holds:
            self.violations[violated] += 1
            self.examples.setdefault(violated, str(example)[:500])


def check_carried_out(connection: Connection, outcome: Outcome) -> None:
    """Add the open questions that are in time and that enough people have approved: due work should have closed them."""
    given = _answers(connection)
    for row in connection.execute(select(questions).where(questions.c.state == QuestionState.OPEN)):
        mine = given[row.id]
        enough = row.asks is Asks.OTHERS and is_met(_asked_under(row), _roles(row, mine)) and all(one.yes for one in mine)
        outcome.require(not enough, "enough people approved, and nothing was done", row)


def check(connection: Connection, effects: Collection[Effect], outcome: Outcome) -> None:
    """Add what the rows and the effects of all questions violate, after everything was done that was due."""
    made = defaultdict[str, list[Effect]](list)
    for effect in effects:
        made[effect.target or effect.key].append(effect)
    given, records, rules_of = _answers(connection), _records(connection), _rules_of(connection)
    said = Counter(connection.execute(select(messages.c.decision_id).where(messages.c.role == "assistant")).scalars())
    closed = (record.header.context.approval for record in records.values())
    closings = Counter(one.request.id for one in closed if one is not None)
    for row in connection.execute(select(questions)):
        outcome.ends[f"{row.asks}: {row.state}"] += 1
        calls = [made.get(one, []) for one in _targets(row)]
        need = outcome.require
        need(row.state is not QuestionState.OPEN, "a question is open for ever", row)
        need(max(map(len, calls)) <= 1, "an approval is used twice", row)
        need(not any(calls) or row.state is _APPROVED, "an effect without approval", row)
        sent = [one for call in calls for one in call]
        if row.asks is Asks.REQUESTER:
            asked = records.get(row.decision_id)
            rules = LAX if asked is None else rules_of[asked.header.conditions]
            need(all(one.rules == rules for one in sent), "carried out by other rules", row)
        else:
            roles = _roles(row, given[row.id])
            need(all(is_met(one.rules, roles) for one in sent), "carried out by rules that refuse it", (row, sent))
            need(not sent or is_met(_asked_under(row), roles), "the rules under which it was asked refuse it", (row, sent))
        if row.state is _APPROVED:
            record = records.get(row.closed_by)
            states = [] if record is None else [one.state is SaidState.DONE for one in record.decision.calls_said]
            # A late process, or one with other rules, that finishes the turn of a dead one makes no further call and says so.
            ended = row.asks is Asks.REQUESTER and record is not None and record.status is RecordStatus.INTERRUPTED
            need(calls[0] or row.id in made or ended, "approved, and nothing was done", row)
            need(states == [bool(one) for one in calls], "another outcome is said", (row, states, calls))
            need(row.ended_at < row.expires_at, "approved after its time", row)
            need(all(one.yes for one in given[row.id]), "approved beside a denial", row)
            if row.asks is Asks.OTHERS:
                need(is_met(_asked_under(row), _roles(row, given[row.id])), "approved by too few people", given[row.id])
            else:
                need([one.person for one in given[row.id]] == [row.user_id], "approved by another person", given[row.id])
        if row.asks is Asks.OTHERS:
            need(row.closed_by is not None and closings[row.id] == 1, "not one closing decision", row)
            need(said[row.closed_by] == 1, "not one closing message", row)
    for turn in connection.execute(select(turns).where(turns.c.state != TurnState.DONE)):
        outcome.require(holds=False, violated="a turn is open", example=turn)
    for work in connection.execute(select(due)):
        outcome.require(holds=False, violated="work is left", example=work)


def _answers(connection: Connection) -> Mapping[str, list[Row[Any]]]:
    found = defaultdict[str, list[Row[Any]]](list)
    for row in connection.execute(select(answers)):
        found[row.question_id].append(row)
    return found


def _records(connection: Connection) -> dict[str, DecisionRecord]:
    found = connection.execute(select(decision_logs.c.decision_id, decision_logs.c.record)).all()
    return {row.decision_id: DecisionRecord.model_validate_json(row.record) for row in found if row.record is not None}


def _rules_of(connection: Connection) -> dict[str | None, str]:
    """Return the name of the rules with the conditions of each digest; the lax ones have none."""
    texts = connection.execute(select(record_blobs.c.digest, record_blobs.c.text)).all()
    named = {row.digest: name for row in texts for name in (USUAL, STRICT) if f'@id(\\"{name}\\")' in row.text}
    return {None: LAX, **named}


def _asked_under(question: Row[Any]) -> str:
    """Return the rules under which others were asked, by the name of the one that asks them."""
    (rules,) = question.subject["rules"]
    return str(rules)


def _roles(question: Row[Any], given: Collection[Row[Any]]) -> list[str]:
    """Return the role of each other person who approved with enough evidence."""
    return [one.role for one in given if one.yes and one.evidence >= question.least and one.person != question.user_id]


def _targets(question: Row[Any]) -> Iterator[str]:
    action = question.subject["action"]
    for call in action.get("calls") or [action]:
        yield target_of(call["arguments"])
