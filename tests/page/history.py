"""A log with some days of decisions, for the views that show many of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.bootstrap.stores import open_stores
from graph_agent.clock import SystemClock
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import DecisionRecord
from graph_agent.record.tree.service import RecordTree
from graph_agent.settings import Settings
from tests.audit.builders import make_record, store_records

KEY = derive_record_key(b"a secret of sixteen bytes at least")

_TURNS: list[tuple[str, dict[str, Any]]] = [
    ("add a task to call mom", {"calls": ({"duration_ms": 12},)}),
    ("show my tasks", {"intent": IntentType.LIST_TASKS, "calls": ({"tool_name": "list_tasks", "duration_ms": 6},)}),
    ("I called mom", {"intent": IntentType.COMPLETE_TASK, "calls": ({"tool_name": "complete_task", "duration_ms": 14},)}),
    (
        "groceries",
        {
            "intent": IntentType.AMBIGUOUS,
            "decision_type": DecisionType.ASK_CLARIFICATION,
            "outcome": OutcomeCategory.MISSING_CONTEXT,
        },
    ),
    (
        "what's the weather?",
        {
            "intent": IntentType.GENERAL_CHAT,
            "decision_type": DecisionType.RESPOND_ONLY,
            "outcome": OutcomeCategory.OUT_OF_SCOPE,
        },
    ),
    (
        "yes",
        {
            "intent": IntentType.CONFIRM_YES,
            "decision_type": DecisionType.EXECUTE_PENDING,
            "calls": ({"tool_name": "delete_task", "duration_ms": 15},),
        },
    ),
]
_USUAL = (8, 6, 5, 2, 1, 2)
_CHANGED = (8, 6, 5, 9, 1, 2)


async def with_decisions(folder: Path, user: str, count: int) -> Path:
    """Add `count` decisions of the last two days to the log in `folder`."""
    async with open_stores(Settings(GRAPH_AGENT_HOME=folder)) as stores:
        decisions = _decisions(1, count, datetime.now(UTC) - timedelta(days=2), timedelta(days=2), user, _USUAL)
        store_records(stores.database, *decisions, key=KEY)
    return folder


async def with_history(folder: Path, user: str) -> Path:
    """Add decisions of seven days to the log in `folder`; in the last two, more messages end in a question."""
    now = datetime.now(UTC)
    start = now - timedelta(days=7)
    settings = Settings(GRAPH_AGENT_HOME=folder)
    async with open_stores(settings) as stores:
        usual = _decisions(1, 300, start, timedelta(days=5), user, _USUAL)
        store_records(stores.database, *usual, key=KEY)
        changed = _decisions(1000, 240, start + timedelta(days=5), timedelta(days=2), user, _CHANGED)
        store_records(stores.database, *changed, key=KEY)
        # The verification of the page counts what is in the tree.
        await RecordTree(stores.database, log_keys(settings), key=KEY, clock=SystemClock()).seal()
    return folder


def _decisions(
    first: int, count: int, start: datetime, span: timedelta, user: str, weights: tuple[int, ...]
) -> Iterator[DecisionRecord]:
    chance = random.Random(first)
    for number, (message, turn) in enumerate(chance.choices(_TURNS, weights, k=count)):
        yield make_record(
            first + number,
            at=start + span * (number + chance.random()) / count,
            user=user,
            conversation=f"c{number // 4}",
            message=message,
            ms=int(chance.lognormvariate(6.3, 0.4)),
            tokens=chance.randrange(700, 1400),
            **turn,
        )
