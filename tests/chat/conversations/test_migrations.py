"""A database of an earlier version is upgraded, and nothing that waits is lost."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import Column, Connection, String, Table, inspect, text

from graph_agent.chat.conversations.tables import metadata
from graph_agent.db import Database, JsonText, UtcDateTime, enum_by_value, migrate, new_metadata

_OWNER = "graph_agent.chat.conversations"
_TIMES = {"postgresql": "timestamp with time zone", "sqlite": "VARCHAR(32)"}
_OLD_APPROVALS = """
CREATE TABLE approvals (
\tid VARCHAR(255) NOT NULL,
\tuser_id VARCHAR(255) NOT NULL,
\tconversation_id VARCHAR(255) NOT NULL,
\tdecision_id VARCHAR(64) NOT NULL,
\tcall_digest VARCHAR(64) NOT NULL,
\trequest TEXT NOT NULL,
\tstate VARCHAR(32) NOT NULL,
\twhy TEXT,
\tcreated_at {time} NOT NULL,
\texpires_at {time} NOT NULL,
\tended_at {time},
\tclosing_decision VARCHAR(64),
\tnotice VARCHAR(32),
\tnotice_due_at {time},
\tnotice_attempts INTEGER NOT NULL,
\tmac VARCHAR(64) NOT NULL,
\tCONSTRAINT pk_approvals PRIMARY KEY (id),
\tCONSTRAINT ck_approvals_state CHECK (state IN ('open', 'approved', 'denied', 'cancelled', 'expired', 'void')),
\tCONSTRAINT ck_approvals_notice CHECK (notice IN ('requested', 'reminder', 'closed'))
)
"""

_OLD_ANSWERS = """
CREATE TABLE approval_answers (
\tapproval_id VARCHAR(255) NOT NULL REFERENCES approvals (id),
\tapprover VARCHAR(255) NOT NULL,
\tapprove BOOLEAN NOT NULL,
\trole VARCHAR(255) NOT NULL,
\treason TEXT NOT NULL,
\tdigest VARCHAR(64) NOT NULL,
\tidentity VARCHAR(32) NOT NULL,
\tsignature TEXT NOT NULL,
\tanswered_at {time} NOT NULL,
\tmac VARCHAR(64) NOT NULL,
\tPRIMARY KEY (approval_id, approver)
)
"""


def _columns(connection: Connection) -> list[str]:
    return [column["name"] for column in inspect(connection).get_columns("approvals")]


def _shape(connection: Connection, table: str = "approvals") -> object:
    found = inspect(connection)
    return (
        [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)],
        sorted((index["name"] or "", index["column_names"]) for index in found.get_indexes(table)),
        sorted(str(check["name"]) for check in found.get_check_constraints(table)),
    )


def _go_back(connection: Connection) -> None:
    """Make the tables those of revision 0001, with four requests and an answer."""
    connection.execute(text(_OLD_APPROVALS.format(time=_TIMES[connection.dialect.name])))
    connection.execute(text("CREATE INDEX ix_approvals_user_id_state ON approvals (user_id, state)"))
    connection.execute(text("CREATE INDEX ix_approvals_state_expires_at ON approvals (state, expires_at)"))
    connection.execute(text(_OLD_ANSWERS.format(time=_TIMES[connection.dialect.name])))
    insert = """INSERT INTO approvals VALUES (:id, 'ann', 'c', 'd', 'digest', '{}', :state, NULL,
        '2026-01-05T09:00:00.000000+00:00', '2026-01-06T09:00:00.000000+00:00', NULL, NULL, :notice, :due, :tries, 'mac')"""
    for row in (
        {"id": "new", "state": "open", "notice": "requested", "due": "2026-01-05T09:00:00.000000+00:00", "tries": 2},
        {"id": "old", "state": "open", "notice": "reminder", "due": "2026-01-05T21:00:00.000000+00:00", "tries": 0},
        {"id": "ended", "state": "denied", "notice": "closed", "due": "2026-01-05T10:00:00.000000+00:00", "tries": 0},
        {"id": "sent", "state": "denied", "notice": None, "due": None, "tries": 0},
    ):
        connection.execute(text(insert), row)
    answer = "INSERT INTO approval_answers VALUES ('new', 'ben', {true}, 'manager', '', 'digest', 'token', '', '{at}', 'mac')"
    at, true = "2026-01-05T09:30:00.000000+00:00", "true" if connection.dialect.name == "postgresql" else "1"
    connection.execute(text(answer.format(at=at, true=true)))
    connection.execute(text("UPDATE conversations_schema SET version_num = '0001'"))


def test_the_notices_that_wait_are_due_after_the_upgrade(database: Database) -> None:
    migrate(database, "graph_agent.due")
    migrate(database, _OWNER)
    database.write_now(_go_back)
    migrate(database, _OWNER)

    def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(text(query))]

    assert "notice" not in database.read_now(_columns)
    due = "SELECT kind, key, user_id, attempts FROM due ORDER BY key"
    assert database.read_now(lambda connection: rows(connection, due)) == [
        ("notice", "ended.closed", "ann", 0),
        ("notice", "new.reminder", "ann", 0),
        ("notice", "new.requested", "ann", 2),
        ("notice", "old.reminder", "ann", 0),
    ]
    halves = "SELECT count(DISTINCT due_at) FROM due WHERE key LIKE '%.reminder'"
    assert database.read_now(lambda connection: rows(connection, halves)) == [(1,)]
    kept = "SELECT id FROM approvals JOIN approval_answers ON approval_id = id"
    assert database.read_now(lambda connection: rows(connection, kept)) == [("new",)]


class _OldState(StrEnum):
    OPEN = "open"
    CONFIRMED = "confirmed"


def _go_back_to_0003(connection: Connection) -> None:
    """Make the tables those of revision 0003, with a message that asks."""
    old = new_metadata()
    for name in ("conversations", "messages"):
        metadata.tables[name].to_metadata(old)
    old.tables["conversations"].append_column(Column("pending", JsonText))
    states = enum_by_value(_OldState, "question_state")
    old.tables["messages"].append_column(Column("question_expires_at", UtcDateTime))
    old.tables["messages"].append_column(Column("question_state", states))
    for name in ("used_confirmations", "asked_confirmations"):
        Table(name, old, Column("pending_id", String(255), primary_key=True))
    for name in ("messages", "turns", "conversations"):
        connection.execute(text(f"DROP TABLE {name}"))
    old.create_all(connection)
    metadata.tables["turns"].create(connection)
    at = "2026-01-05T09:00:00.000000+00:00"
    connection.execute(text(f"INSERT INTO conversations VALUES ('c', 'ann', 't', '{at}', '{at}', '{{}}')"))
    connection.execute(
        text(
            "INSERT INTO messages (id, conversation_id, role, content, decision_id, created_at, question_id, question_state) "
            f"VALUES ('m', 'c', 'assistant', 'sure?', 'd', '{at}', 'p', 'confirmed')"
        )
    )
    connection.execute(text("UPDATE conversations_schema SET version_num = '0003'"))


def test_the_messages_stay_after_the_upgrade_and_their_questions_are_in_a_table_of_their_own(database: Database) -> None:
    migrate(database, "graph_agent.due")
    migrate(database, _OWNER)

    def shapes(connection: Connection) -> list[object]:
        return [
            _shape(connection, "conversations"),
            _shape(connection, "messages"),
            sorted(inspect(connection).get_table_names()),
        ]

    declared = database.read_now(shapes)
    database.write_now(_go_back_to_0003)
    assert database.read_now(shapes) != declared
    migrate(database, _OWNER)
    assert database.read_now(shapes) == declared
    kept = text("SELECT messages.id, question_id FROM messages JOIN conversations ON conversations.id = conversation_id")
    assert database.read_now(lambda connection: connection.execute(kept).all()) == [("m", "p")]
