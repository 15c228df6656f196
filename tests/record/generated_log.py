"""A log of any number of decisions: a dozen turns are run, and their records are written often, with other ids and times."""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert

from graph_agent.clock import ManualClock, SequentialIds, uuid7
from graph_agent.db import Database, migrate
from graph_agent.errors import LLMError, RateLimitError
from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import LLMAdapter
from graph_agent.record.blobs import store_texts
from graph_agent.record.partitions import create_days
from graph_agent.record.projection import decision_row, invocation_rows
from graph_agent.record.tables import decision_logs, tool_invocation_logs
from graph_agent.record.tree.leaves import RecordKey, Sealer, new_leaf
from graph_agent.record.tree.tables import LeafKind, record_pending
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.permission import permitted
from tests.scripted_turns import grouped

ENDS = datetime(2026, 10, 1, tzinfo=UTC)
PER_DAY = 10_000
MAX_DAYS = 100
"""A larger log has more decisions a day instead of more days."""
USERS = 5_000
BATCH = 2_000

_USER, _CONVERSATION, _DECISION = "user-template", "conversation-template", str(uuid.UUID(int=1))
_MESSAGES = {
    "add a task to call mom": 28,
    "remind me to buy groceries": 14,
    "show my tasks": 20,
    "mark call mom as done": 10,
    "delete the groceries task": 5,
    "hello": 8,
    "what can you help me with?": 3,
    "what's the weather?": 4,
    "groceries": 4,
}
"""The messages of the users, and the share of each in percent."""
_MODEL_ERRORS: tuple[tuple[LLMError, int], ...] = ((LLMError(), 2), (RateLimitError(), 1))
_TRUNCATED = LLMResponse(content="I was about to say", finish_reason="max_tokens")


@dataclass(frozen=True)
class Template:
    """The rows of one real decision, which are written many times with other ids. `weight` is its share in percent."""

    decision: dict[str, Any]
    invocations: list[dict[str, Any]]
    weight: int


async def templates() -> tuple[list[Template], dict[str, str]]:
    """Run each kind of turn once, each on its own databases; return the rows and the texts that the records reference."""
    constitution = (Path(__file__).parents[2] / "constitution.md").read_text(encoding="utf-8")
    found = []
    texts: dict[str, str] = {}
    adapters: list[tuple[LLMAdapter, str, int]] = [(EmbeddedAdapter(), text, weight) for text, weight in _MESSAGES.items()]
    adapters += [(ScriptedAdapter([error], model="embedded"), "add a task", weight) for error, weight in _MODEL_ERRORS]
    adapters += [(ScriptedAdapter([_TRUNCATED], model="embedded"), "tell me everything", 1)]
    for adapter, text, weight in adapters:
        tasks = Database.open("sqlite://")
        migrate(tasks, "graph_agent.task_server")
        async with McpToolExecutor(build_task_server(tasks)) as tools:
            for description in ("call mom", "buy groceries"):
                await tools.execute(permitted("add_task", {"description": description}, _USER))
            engine = LLMAgentEngine(adapter, tools, constitution, **grouped(clock=ManualClock(ENDS), ids=SequentialIds()))
            texts |= (await engine.prepare()).texts
            turn = await engine.run(
                DecisionContext(user_id=_USER, conversation_id=_CONVERSATION, message=text), decision_id=_DECISION
            )
            found.append(_template(turn.record, weight))
        tasks.close_now()
    return found, texts


def _template(record: DecisionRecord, weight: int) -> Template:
    plain = record.to_json()
    return Template(decision_row(plain), invocation_rows(plain), weight)


def per_day(count: int) -> int:
    """Return how many decisions a log of `count` decisions has on each of its days."""
    return max(PER_DAY, count // MAX_DAYS)


def rows(kinds: list[Template], count: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the rows of `count` decisions over the days before `ENDS`, oldest first, each with the rows of its calls."""
    chance = random.Random(2026)
    weights = [kind.weight for kind in kinds]
    step = timedelta(days=1) / per_day(count)
    for number in range(count):
        kind = chance.choices(kinds, weights)[0]
        at = ENDS - step * (count - number)
        decision_id = uuid7(at, chance.getrandbits(74))
        user, conversation = f"user-{chance.randrange(USERS)}", f"conversation-{chance.randrange(count // 5 + 1)}"
        ms = round(chance.lognormvariate(6, 0.6))
        changed = {"decision_id": decision_id, "user_id": user, "conversation_id": conversation, "created_at": at}
        texts = {
            name: kind.decision[name]
            .replace(_DECISION, decision_id)
            .replace(_USER, user)
            .replace(_CONVERSATION, conversation)
            .replace(ENDS.isoformat().replace("+00:00", "Z"), at.isoformat().replace("+00:00", "Z"))
            for name in ("header", "record")
        }
        ended = at + timedelta(milliseconds=ms)
        tokens = chance.randrange(400, 1500)
        usage = {"prompt_tokens": tokens, "completion_tokens": tokens // 20, "total_tokens": tokens + tokens // 20}
        yield (
            {**kind.decision, **changed, **texts, **usage, "ended_at": ended, "duration_ms": ms},
            [
                {**row, "decision_id": decision_id, "invoked_at": ended, "duration_ms": chance.randrange(2, 60)}
                for row in kind.invocations
            ],
        )


def fill(database: Database, count: int, key: RecordKey = None) -> None:
    """Write `count` decisions, which wait for the tree under `key`, `BATCH` of them in each transaction."""
    kinds, texts = asyncio.run(templates())
    begins = ENDS - timedelta(days=1) * count / per_day(count)
    database.write_now(lambda connection: create_days(connection, begins, ENDS))
    for at in (begins, ENDS):
        database.write_now(lambda connection, at=at: store_texts(connection, texts, at))  # type: ignore[misc]  # a default binds the value
    tables = (decision_logs, tool_invocation_logs, record_pending)
    waiting: tuple[list[dict[str, Any]], ...] = ([], [], [])
    sealer = Sealer(key)

    def flush() -> None:
        def write_batches(connection: Connection) -> None:
            for table, batch in zip(tables, waiting, strict=True):
                _write(connection, table, batch)

        database.write_now(write_batches)
        for batch in waiting:
            batch.clear()

    for number, (decision, invocations) in enumerate(rows(kinds, count), start=1):
        leaf = new_leaf(LeafKind.DECISION, decision["decision_id"], decision["record"], sealer)
        waiting[0].append({**decision, "salt": leaf.salt})
        waiting[1].extend(invocations)
        waiting[2].append(dict(leaf.row))
        if number % BATCH == 0:
            flush()
            if number % (BATCH * 25) == 0:
                print(f"{number:,} decisions", file=sys.stderr)
    flush()


def _write(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`, which have the same columns; into PostgreSQL with COPY."""
    if not rows:
        return
    if connection.dialect.name != "postgresql":
        connection.execute(insert(table), rows)
        return
    converters = {name: table.c[name].type.bind_processor(connection.dialect) for name in rows[0]}
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({', '.join(converters)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[name] if convert is None else convert(row[name]) for name, convert in converters.items()])
