"""The search for decisions by their words, on both databases, and that removed words leave the index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text, update

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.retention import erase_decisions, remove_decisions
from graph_agent.chat.service import ChatService
from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.record.search import MAX_WORDS, words_of
from graph_agent.record.tables import decision_logs
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.tree.statements import Statement, StatementKind
from tests.audit.builders import NOON, make_record, store_records
from tests.chat.environment import Environment
from tests.record.trees import pruned, tree_of, verified


async def found(log: Database, search: str, **filters: Any) -> list[int]:
    """Return the numbers of the decisions that a search finds, the newest first."""
    page = await LogQueryService(log).query_decisions(DecisionFilter.of(search=search, **filters))
    assert page.total == len(page.items)
    return [int(item.decision_id[-4:], 16) for item in page.items]


@pytest.fixture
def searched(log: Database) -> Database:
    order = {"tool_name": "order_part", "parameters": {"part": "Bolt M8", "lines": [{"count": 120, "urgent": True}]}}
    question: dict[str, Any] = {"decision_type": DecisionType.ASK_CLARIFICATION, "outcome": OutcomeCategory.MULTIPLE_MATCHES}
    store_records(
        log,
        make_record(1, message="Order 120 bolts, please", calls=(order,)),
        make_record(2, message="Größe der Müllers: don't_know", user="bob"),
        make_record(3, message="什么时候开会", **question),
        make_record(4, message="groceries"),
    )
    return log


@pytest.mark.parametrize(
    ("search", "numbers"),
    [
        ("bolt", [1]),
        ("BOLTS order", [1]),
        ("m8", [1]),
        ("120 order_part", [1]),
        ("olt", []),
        ("bolt groceries", []),
        ("grosse", [2]),
        ("Größe MÜLL", [2]),
        ("know", [2]),
        ("gro", [4, 2]),
        ("which one?", [3]),
        ("开会", [3]),
        ("true", []),
        ("done", [4, 2, 1]),
        ("' OR 2=2 --", []),
        ('"bolt" NEAR * :*', []),
        ("bolt' & !'x", []),
    ],
)
async def test_a_search_finds_the_decisions_that_have_every_word(searched: Database, search: str, numbers: list[int]) -> None:
    assert await found(searched, search) == numbers


async def test_a_search_goes_together_with_the_other_filters_and_with_metrics(searched: Database) -> None:
    assert await found(searched, "gro", user_id="bob") == [2]
    assert await found(searched, "gro", since=NOON + timedelta(minutes=3)) == [4]
    assert await found(searched, "done", refused=False, outcome="SUCCESS", decision_type="INVOKE_TOOL") == [4, 2, 1]
    metrics = await LogQueryService(searched).get_metrics_summary(filters=DecisionFilter.of(search="bolt"))
    assert metrics.total == 1


@pytest.mark.parametrize("search", ["", "?!", " ", "_", "x" * 201])
def test_a_search_without_a_word_is_refused(search: str) -> None:
    with pytest.raises(ServiceError, match=": search: "):
        DecisionFilter.of(search=search)


async def test_a_decision_is_found_as_soon_as_its_turn_has_ended(each_environment: Environment) -> None:
    chat: ChatService = each_environment.chat()
    first = await chat.send("ann", "add a task to buy zinnias")
    await chat.send("ann", "delete the buy zinnias task", conversation_id=first.conversation_id)
    await chat.send("ann", "yes", conversation_id=first.conversation_id)
    log = LogQueryService(each_environment.database)
    page = await log.query_decisions(DecisionFilter.of(search="zinn"))
    assert [item.decision_type for item in page.items] == ["EXECUTE_PENDING", "REQUEST_CONFIRMATION", "INVOKE_TOOL"]


async def test_pruned_and_erased_decisions_leave_the_index(log: Database) -> None:
    old = [make_record(number, at=NOON - timedelta(days=40 - number / 10), message=f"secretive {number}") for number in (1, 2)]
    store_records(log, *old, make_record(3, message="unspeakable matter"), make_record(4, user="bob", message="plain words"))
    assert await found(log, "secretive") == [2, 1]
    await pruned(log, NOON - timedelta(days=1))
    assert (await found(log, "secretive"), await found(log, "unspeakable")) == ([], [3])
    removal = Statement(statement=StatementKind.ERASED, at=NOON, reasons=["asked to"])
    log.write_now(lambda connection: erase_decisions(connection, "ann", removal, None))
    assert (await found(log, "unspeakable"), await found(log, "plain")) == ([], [4])
    if log.dialect == "sqlite":
        assert _words_in_files(log) == {"plain", "words", "done"}


def _words_in_files(log: Database) -> set[str]:
    """Return those of the messages' words that the tables of the index contain in any form, and that VACUUM would keep."""
    blobs = log.read_now(lambda connection: connection.execute(text("SELECT block FROM search_index_data")).scalars().all())
    rows = log.read_now(lambda connection: connection.execute(text("SELECT count(*) FROM search_rows")).scalar_one())
    assert rows == 1
    # FTS5 leaves out the beginning of a word that the word before it has, too.
    content = b"".join(blobs)
    return {word for word in ("secretive", "unspeakable", "matter", "plain", "words", "done") if word[1:].encode() in content}


@pytest.fixture
def sqlite_log(tmp_path: Path) -> Iterator[Database]:
    log = Database.open(f"sqlite:///{tmp_path / 'log.db'}")
    log.write_now(decision_logs.metadata.create_all)
    yield log
    log.close_now()


async def test_an_index_of_many_parts_has_no_removed_word_after_a_pruning(sqlite_log: Database) -> None:
    log = sqlite_log
    for number in range(1, 40):
        store_records(log, make_record(number, at=NOON - timedelta(days=40 - number), message=f"zebra{number:03}"))
    await pruned(log, NOON - timedelta(days=20))
    blobs = log.read_now(lambda connection: connection.execute(text("SELECT block FROM search_index_data")).scalars().all())
    # The first word of a page is stored whole, the others from where they differ.
    assert re.findall(rb"ebra0(\d\d)", b"".join(blobs)) == [b"20"]
    assert await found(log, "zebra") == list(range(39, 19, -1))


async def test_words_that_are_changed_by_hand_are_reported(searched: Database) -> None:
    await tree_of(searched, None).seal()
    changed = update(decision_logs).where(decision_logs.c.decision_id == make_record(1).header.decision_id)
    searched.write_now(lambda connection: connection.execute(changed.values(words="order")).close())
    assert (await found(searched, "bolt"), await found(searched, "order")) == ([], [1])
    (violation,) = (await verified(searched, key=None)).violations
    assert violation.kind is ViolationKind.PROJECTION
    assert violation.text.endswith("decision_logs: the column words differs from the record")


def test_the_index_of_sqlite_survives_a_vacuum(sqlite_log: Database, tmp_path: Path) -> None:
    log = sqlite_log
    records = [make_record(number, message=f"number{number}") for number in range(1, 9)]
    store_records(log, *records)
    log.write_now(lambda connection: remove_decisions(connection, [record.header.decision_id for record in records[:3]]))
    with sqlite3.connect(tmp_path / "log.db", isolation_level=None) as connection:
        connection.execute("VACUUM")
        query = "SELECT decision_id FROM search_rows WHERE n = (SELECT rowid FROM search_index('number7'))"
        assert connection.execute(query).fetchall() == [(make_record(7).header.decision_id,)]


def test_the_words_of_a_decision_are_bounded() -> None:
    assert words_of("x" * 100) == "x" * 40
    assert len(words_of([f"word{number}" for number in range(3 * MAX_WORDS)]).split()) == MAX_WORDS
