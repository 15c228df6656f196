"""The rule sets of a database and their activations, which say since when each was in force.

The commit that opens a decision compares its rule set with the last activation, and adds one if they differ. Processes with
different files alternate.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, text

from graph_agent.db import PreparedStatement, insert_new
from graph_agent.models.record import RecordHeader
from graph_agent.models.rule_set import Activation, RuleSet
from graph_agent.record.tables import rule_activations, rule_sets
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement

_row = rule_activations.c
_ALL = select(_row.number, _row.digest, _row.at, _row.host).order_by(_row.number)
_LAST = PreparedStatement(select(_row.number, _row.digest).order_by(_row.number.desc()).limit(1))
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('graph_agent rules'), hashtext(current_schema()))")


def follow_rules(connection: Connection, rule_set: RuleSet, at: datetime, sealer: Sealer) -> None:
    """Activate the rule set of a decision that started `at` unless it is in force, in the transaction that opens it."""
    last = _LAST.first(connection, {})
    if last is not None and last.digest == rule_set.digest:
        return
    if connection.dialect.name == "postgresql":
        # Of two processes one has the next number. Read again in a statement of its own: the snapshot of one that takes the
        # lock and reads is older than the lock. SQLite has one writer.
        connection.execute(_LOCK).close()
        last = _LAST.first(connection, {})
        if last is not None and last.digest == rule_set.digest:
            return
    number = 1 if last is None else last.number + 1
    insert_new(connection, rule_sets, [{"digest": rule_set.digest, "parts": dict(rule_set.parts)}])
    row = {"number": number, "digest": rule_set.digest, "at": at, "host": socket.gethostname()}
    connection.execute(insert(rule_activations), row)
    if last is not None:
        # The first rules replace none: every record before the next statement names them, and so does that statement.
        fields: dict[str, Any] = {"number": number, "rules": rule_set.digest, "previous": last.digest}
        add_statement(connection, Statement(statement=StatementKind.RULES, at=at, **fields), sealer)


def list_activations(connection: Connection, limit: int | None = None) -> list[Activation]:
    """Return the newest activations, the newest first."""
    newest = _ALL.order_by(None).order_by(_row.number.desc()).limit(limit)
    return [Activation(*row) for row in connection.execute(newest)]


def list_rule_sets(connection: Connection, digests: Sequence[str] | None = None) -> dict[str, RuleSet]:
    """Return the rule sets with these digests, or all, by digest."""
    wanted = select(rule_sets) if digests is None else select(rule_sets).where(rule_sets.c.digest.in_(list(digests)))
    return {row.digest: RuleSet(row.parts) for row in connection.execute(wanted)}


def find_activation(connection: Connection, number: int | None = None) -> tuple[Activation, RuleSet] | None:
    """Return an activation, by default the one in force, with its rule set; None if there is none with this number."""
    wanted = _ALL.order_by(None).order_by(_row.number.desc()).limit(1) if number is None else _ALL.where(_row.number == number)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    rule_set = list_rule_sets(connection, [row.digest]).get(row.digest)
    return None if rule_set is None else (Activation(*row), rule_set)


def activation_of(connection: Connection, header: RecordHeader) -> Activation | None:
    """Return the activation under which a decision was made; None for one of an engine of your own."""
    if header.rules is None:
        return None
    found = [Activation(*row) for row in connection.execute(_ALL.where(_row.digest == header.rules))]
    # The first one if the clock of its process was behind that of the process that brought the rules.
    return max((one for one in found if one.at <= header.started_at), default=found[0] if found else None)
