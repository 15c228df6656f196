"""The migration that adds the decision type to the assistant's messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

import graph_agent.chat.conversations
from graph_agent.db import Database, migrate
from tests.audit.builders import make_record, store_records

FOLDER = Path(graph_agent.chat.conversations.__file__).parent / "migrations"
NOW = "2026-01-05 09:00:00.000000"


def _migrate_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table="conversations_version")
    command.upgrade(config, revision)


def _turn(connection: Connection, decision_id: str, answer: dict[str, Any] | None) -> None:
    """Write a turn and its two messages as version 0001 of the tables has them."""
    state = "running" if answer is None else "done"
    values = {"id": decision_id, "now": NOW, "state": state, "answer": None if answer is None else json.dumps(answer)}
    connection.execute(
        text("INSERT INTO conversations (id, user_id, title, created_at, updated_at) VALUES (:id, 'ann', 't', :now, :now)"),
        values,
    )
    connection.execute(
        text(
            "INSERT INTO turns"
            " (id, user_id, body_digest, conversation_id, state, owner, attempt, lease_until, answer, created_at)"
            " VALUES (:id, 'ann', 'd', :id, :state, :id, 1, :now, :answer, :now)"
        ),
        values,
    )
    for role, first in (("user", "1"), ("assistant", "2")):
        connection.execute(
            text(
                "INSERT INTO messages (id, conversation_id, role, content, decision_id, created_at)"
                " VALUES (:message, :id, :role, 'x', :id, :now)"
            ),
            {**values, "message": first + decision_id[1:], "role": role},
        )


def test_existing_messages_get_the_type_that_the_log_or_the_answer_of_the_turn_has(database: Database) -> None:
    logged, answered, unknown, odd = (f"00000000-0000-0000-0000-00000000000{n}" for n in range(1, 5))
    migrate(database, "graph_agent.record")
    record = make_record(1)
    store_records(database, record.replace(header=record.header.replace(decision_id=logged)))

    def work(connection: Connection) -> list[Any]:
        _migrate_to(connection, "0001")
        _turn(connection, logged, None)
        _turn(connection, answered, {"decision": {"decision_type": "ASK_CLARIFICATION"}})
        _turn(connection, unknown, None)
        _turn(connection, odd, {"decision": {"decision_type": "NO_SUCH_TYPE"}})
        _migrate_to(connection, "0002")
        rows = connection.exec_driver_sql("SELECT decision_id, role, decision_type FROM messages ORDER BY number")
        return [(str(row[0]), row[1], row[2]) for row in rows]

    assert database.write_now(work) == [
        (logged, "user", None),
        (logged, "assistant", record.decision.decision_type.value),
        (answered, "user", None),
        (answered, "assistant", "ASK_CLARIFICATION"),
        (unknown, "user", None),
        (unknown, "assistant", None),
        (odd, "user", None),
        (odd, "assistant", None),
    ]


def test_without_a_log_in_the_same_database_the_answers_are_enough(database: Database) -> None:
    decision_id = "00000000-0000-0000-0000-000000000001"

    def work(connection: Connection) -> Any:
        _migrate_to(connection, "0001")
        _turn(connection, decision_id, {"decision": {"decision_type": "REQUEST_CONFIRMATION"}})
        _migrate_to(connection, "0002")
        return connection.exec_driver_sql("SELECT decision_type FROM messages WHERE role = 'assistant'").scalar_one()

    assert database.write_now(work) == "REQUEST_CONFIRMATION"
