"""A new database has the tables that the models declare."""

from __future__ import annotations

import warnings
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, select

from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.record.migrations import metadata
from graph_agent.record.stops import find_open_stops
from graph_agent.record.tables import decision_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from tests.desk import cancel, card_talk
from tests.scripted_turns import calls


def test_the_tables_are_exactly_those_that_the_models_declare(database: Database) -> None:
    migrate(database, "graph_agent.record")

    def differences(connection: Connection) -> list[Any]:
        with warnings.catch_warnings():
            # Alembic warns about index features that it cannot compare.
            warnings.simplefilter("ignore")
            context = MigrationContext.configure(
                connection, opts={"include_name": _is_declared, "include_object": _is_compared}
            )
            return list(compare_metadata(context, metadata))

    assert database.read_now(differences) == []


def _is_compared(_item: Any, name: str | None, kind: str, *_others: Any) -> bool:
    # Alembic does not know that the foreign keys are declared for SQLite only, and the index of words for PostgreSQL only.
    return kind != "foreign_key_constraint" and name != "ix_decision_logs_words"


def _is_declared(name: str | None, kind: str, _parents: Any) -> bool:
    return kind != "table" or name in metadata.tables


def test_a_database_of_the_first_revision_gets_the_same_tables(database: Database) -> None:
    migrate(database, "graph_agent.record")
    declared = database.read_now(_columns)

    def as_before(connection: Connection) -> None:
        for table in ("rule_stops", "mandates", "mandate_draws", "rule_sets", "rule_activations"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("DROP FUNCTION rule_stops_alone")
        connection.exec_driver_sql("CREATE TABLE llm_call_logs (decision_id VARCHAR(64))")
        connection.exec_driver_sql("CREATE TABLE baselines (baseline_id VARCHAR(64))")
        connection.exec_driver_sql("UPDATE record_schema SET version_num = '0001'")

    database.write_now(as_before)
    migrate(database, "graph_agent.record")

    assert database.read_now(_columns) == declared

    def stop_by_hand(connection: Connection) -> None:
        # The other columns have defaults.
        connection.exec_driver_sql("INSERT INTO rule_stops (scope, reason) VALUES ('everything', 'by hand')")

    for number in (1, 2):
        database.write_now(stop_by_hand)
        assert database.read_now(find_open_stops)[-1].number == number


def _columns(connection: Connection) -> Any:
    inspector, shown = inspect(connection), ("name", "type", "nullable", "default")
    return {
        name: (
            [[str(dict(column)[key]) for key in shown] for column in inspector.get_columns(name)],
            sorted(str(index["name"]) for index in inspector.get_indexes(name)),
            inspector.get_pk_constraint(name)["name"],
        )
        for name in inspector.get_table_names()
    }


async def test_a_database_without_the_questions_of_decisions_gets_them_from_the_records(database: Database) -> None:
    migrate(database, "graph_agent.record")
    talk = card_talk(calls(cancel("1")), says("Bye."), clock=ManualClock(), audit=DatabaseAuditWriter(database))
    for text in ("go", "yes", "thanks"):
        await talk.say(text)
    named = select(decision_logs.c.message, decision_logs.c.question)
    before = {row.message: row.question for row in database.read_now(lambda connection: connection.execute(named).all())}
    assert before["go"] == before["yes"] is not None
    assert before["thanks"] is None

    def as_before(connection: Connection) -> None:
        connection.exec_driver_sql("DROP INDEX ix_decision_logs_question")
        connection.exec_driver_sql("ALTER TABLE decision_logs DROP COLUMN question")
        connection.exec_driver_sql("UPDATE record_schema SET version_num = '0006'")

    database.write_now(as_before)
    migrate(database, "graph_agent.record")
    assert {
        row.message: row.question for row in database.read_now(lambda connection: connection.execute(named).all())
    } == before
