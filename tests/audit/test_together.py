"""The decisions about one question as one row: the last of them, on pages, in searches, and in totals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import update

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.record import DecisionRecord
from graph_agent.record.tables import decision_logs
from tests.audit.builders import NOON, make_record, store_records

_OUTCOMES = (OutcomeCategory.TASK_COMPLETED, OutcomeCategory.TOOL_INVOCATION, OutcomeCategory.OUT_OF_SCOPE)
_WORDS = ("milk", "bread", "salt")


def about(log: Database, questions: dict[str, str]) -> None:
    """Write the question of each decision, by their ids."""
    for decision_id, question in questions.items():
        named = update(decision_logs).where(decision_logs.c.decision_id == decision_id).values(question=question)
        log.write_now(lambda connection, named=named: connection.execute(named).close())  # type: ignore[misc]


def random_log(log: Database, seed: int) -> tuple[list[DecisionRecord], dict[str, str]]:
    """Store decisions of which some are about the same questions, many of them at the same time as another one."""
    chance = random.Random(seed)
    records = [
        make_record(
            number,
            user=chance.choice(("ann", "bob")),
            message=f"buy {chance.choice(_WORDS)}",
            outcome=chance.choice(_OUTCOMES),
            at=NOON.replace(minute=number // 2),
        )
        for number in range(1, 41)
    ]
    store_records(log, *records)
    asked = {
        record.header.decision_id: f"{record.header.context.user_id}-{chance.randrange(4)}"
        for record in records
        if chance.random() < 0.6
    }
    about(log, asked)
    return records, asked


def expected(
    records: Sequence[DecisionRecord], asked: dict[str, str], user: str | None, outcome: str | None, word: str | None
) -> list[str]:
    """Return the ids of the rows, by another way: the groups first, and then what is left of each."""
    groups: dict[str, list[DecisionRecord]] = {}
    for record in sorted(records, key=lambda one: (one.header.started_at, one.header.decision_id)):
        groups.setdefault(asked.get(record.header.decision_id, record.header.decision_id), []).append(record)
    rows = [
        group[-1]
        for group in groups.values()
        if (word is None or any(word in one.header.context.message for one in group))
        and (user is None or group[-1].header.context.user_id == user)
        and (outcome is None or group[-1].decision.outcome_category == outcome)
    ]
    rows.sort(key=lambda one: (one.header.started_at, one.header.decision_id), reverse=True)
    return [one.header.decision_id for one in rows]


@pytest.mark.parametrize("seed", range(3))
async def test_pages_have_each_question_once_whatever_the_filter_is(log: Database, seed: int) -> None:
    records, asked = random_log(log, seed)
    service = LogQueryService(log)
    for user in (None, "ann"):
        for outcome in (None, OutcomeCategory.TASK_COMPLETED):
            for word in (None, "milk"):
                wanted = expected(records, asked, user, outcome, word)
                filters = DecisionFilter.of(user_id=user, outcome=outcome, search=word)
                found: list[str] = []
                before: dict[str, Any] = {}
                while True:
                    page = await service.query_decisions(filters, limit=3, together=True, **before)
                    assert page.total == len(wanted)
                    found += [item.decision_id for item in page.items]
                    if not page.has_more:
                        break
                    before = {"before": found[-1]}
                assert found == wanted


async def test_a_newer_decision_about_a_question_is_new_and_takes_the_place_of_the_older_one(log: Database) -> None:
    one, two, three = (make_record(number) for number in (1, 2, 3))
    store_records(log, one, two, three)
    about(log, {one.header.decision_id: "q", three.header.decision_id: "q"})
    service = LogQueryService(log)
    newer = await service.query_decisions(after=two.header.decision_id, together=True)
    assert [(item.decision_id, item.question) for item in newer.items] == [(three.header.decision_id, "q")]
    page = await service.query_decisions(together=True)
    assert [item.decision_id for item in page.items] == [three.header.decision_id, two.header.decision_id]
    apart = await service.query_decisions(DecisionFilter(question="q"))
    assert [item.decision_id for item in apart.items] == [three.header.decision_id, one.header.decision_id]


async def test_a_question_of_another_user_hides_no_row(log: Database) -> None:
    one, two = make_record(1), make_record(2, user="bob")
    store_records(log, one, two)
    about(log, {one.header.decision_id: "q", two.header.decision_id: "q"})
    page = await LogQueryService(log).query_decisions(DecisionFilter(user_id="ann"), together=True)
    assert [item.decision_id for item in page.items] == [one.header.decision_id]
