"""The rule sets of a database and their activations, which say since when each was in force.

The commit that opens a decision compares its rule set with the last activation, and adds one if they differ. Processes with
different files alternate.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from graph_agent.db import Database, insert_new
from graph_agent.errors import RulesReplacedError, ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionOpening, RecordHeader
from graph_agent.models.rule_set import Activation, ActivationKind, RuleSet
from graph_agent.record.rules_head import RulesHead, activation_macs, find_head, require_own_rules
from graph_agent.record.stops import write_alone
from graph_agent.record.tables import rule_activations, rule_sets
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement

_row = rule_activations.c
_ALL = select(_row.number, _row.digest, _row.at, _row.host, _row.kind, _row.made_by, _row.reason).order_by(_row.number)
_LAST = select(_row.number, _row.digest, _row.floor).order_by(_row.number.desc()).limit(1)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('graph_agent rules'), hashtext(current_schema()))")


def open_under_rules(connection: Connection, opening: DecisionOpening, at: datetime, sealer: Sealer) -> None:
    """Open a decision that started `at` under the rules in force, in the transaction that stores its opening row.

    While rules are followed, those of the decision are put in force. Otherwise it must have those in force: raises
    `RulesReplacedError`, for an engine of your own `ConfigurationError`, and `ServiceError` RULES_UNAVAILABLE.
    """
    rule_set = opening.rule_set
    head = find_head(connection, sealer)
    if rule_set is not None and not _is_in_force(rule_set, head):
        lock_activations(connection)
        # Read again in a statement of its own: the snapshot of one that takes the lock and reads is older than the lock.
        head = find_head(connection, sealer)
    if head is not None and head.binds:
        if rule_set is None:
            require_own_rules(connection, head, opening.header, opening.texts)
        elif rule_set.digest != head.digest:
            raise RulesReplacedError
    elif rule_set is not None and not _is_in_force(rule_set, head):
        add_activation(connection, rule_set, None if head is None else head.number, at, sealer)


def _is_in_force(rule_set: RuleSet, head: RulesHead | None) -> bool:
    return head is not None and head.digest == rule_set.digest


def lock_activations(connection: Connection) -> None:
    """Let no other transaction add an activation before this one ends. SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK).close()


def add_activation(
    connection: Connection,
    rule_set: RuleSet,
    previous: int | None,
    at: datetime,
    sealer: Sealer,
    *,
    kind: ActivationKind = ActivationKind.FOLLOWED,
    floor: int | None = None,
    **by: str,
) -> int:
    """Store an activation after that with the number `previous`, and state it in the log; return its number."""
    number = (previous or 0) + 1
    before = connection.execute(select(_row.digest).where(_row.number == previous)).scalar_one_or_none()
    insert_new(connection, rule_sets, [{"digest": rule_set.digest, "parts": dict(rule_set.parts)}])
    followed = kind is ActivationKind.FOLLOWED
    mac = None if followed else activation_macs(sealer, number, rule_set.digest, at, kind, floor)[0]
    row = {"number": number, "digest": rule_set.digest, "at": at, "host": socket.gethostname(), "kind": kind}
    connection.execute(insert(rule_activations), {**row, "floor": floor, "mac": mac, **by})
    if before is not None or not followed:
        # The first followed rules replace none: every record before the next statement names them, and so does that statement.
        fields: dict[str, Any] = {"number": number, "rules": rule_set.digest, "previous": before}
        stated = Statement(statement=StatementKind.RULES, at=at, **fields, kind=None if followed else kind)
        add_statement(connection, stated, sealer)
    return number


async def activate_rules(
    database: Database,
    rule_set: RuleSet,
    sealer: Sealer,
    *,
    expected: int,
    kind: ActivationKind = ActivationKind.ACTIVATED,
    drain: bool = False,
    by: str = "",
    reason: str = "",
) -> Activation:
    """Put a rule set in force for every process, or with the kind RELEASED for none, after the activation `expected`.

    From its commit on, turns under earlier rules intend nothing more, unless they may `drain`. Raises `ServiceError`
    RULES_CONFLICT if another activation is the last one, and `DatabaseUnavailableError`.
    """

    def activate(connection: Connection) -> Activation:
        lock_activations(connection)
        last = connection.execute(_LAST).one_or_none()
        if (0 if last is None else last.number) != expected:
            now = "none" if last is None else f"{last.number} ({last.digest[:12]})"
            text = f"The rules in force are {now} and no longer {expected}: nothing was activated. Compare and try again."
            raise ServiceError(ServiceErrorCode.RULES_CONFLICT, text)
        number, floor = expected + 1, None
        if kind.binds:
            floor = number if not drain else 1 if last is None or last.floor is None else last.floor
        at = connection.execute(select(database.time())).scalar_one().astimezone(UTC)
        named = {"made_by": by, "reason": reason}
        add_activation(connection, rule_set, expected or None, at, sealer, kind=kind, floor=floor, **named)
        return _activation(connection.execute(_ALL.where(_row.number == number)).one())

    return await write_alone(database, activate)


def forget_operator(connection: Connection, user_id: str) -> None:
    """Erase a person from the activations, which stay."""
    connection.execute(update(rule_activations).where(_row.made_by == user_id), {"made_by": "", "reason": ""})


def list_activations(connection: Connection, limit: int | None = None) -> list[Activation]:
    """Return the newest activations, the newest first."""
    newest = _ALL.order_by(None).order_by(_row.number.desc()).limit(limit)
    return [_activation(row) for row in connection.execute(newest)]


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
    return None if rule_set is None else (_activation(row), rule_set)


def find_activated(connection: Connection, sealer: Sealer) -> tuple[RulesHead | None, RuleSet | None]:
    """Return the rules in force, with the rule set if every process has to use it. Raises as `find_head`."""
    head = find_head(connection, sealer)
    if head is None or not head.binds:
        return head, None
    return head, list_rule_sets(connection, [head.digest]).get(head.digest)


def activation_of(connection: Connection, header: RecordHeader) -> Activation | None:
    """Return the activation under which a decision was made; None for one of an engine of your own."""
    if header.rules is None:
        return None
    found = [_activation(row) for row in connection.execute(_ALL.where(_row.digest == header.rules))]
    # The first one if the clock of its process was behind that of the process that brought the rules.
    return max((one for one in found if one.at <= header.started_at), default=found[0] if found else None)


def _activation(row: Any) -> Activation:
    number, digest, at, host, kind, by, reason = row
    return Activation(number, digest, at, host, ActivationKind(kind), by, reason)
