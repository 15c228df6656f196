"""The rules in force: what the last activation says, read in the commits that open decisions and intend calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, text

from graph_agent.db import PreparedStatement
from graph_agent.errors import ConfigurationError, RulesReplacedError, ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.record import CallOperation, RecordHeader
from graph_agent.models.rule_set import ActivationKind
from graph_agent.record.tables import decision_logs, rule_activations, rule_sets
from graph_agent.record.tree.leaves import Sealer

_row = rule_activations.c
_SEALED = ("number", "digest", "at", "kind", "floor", "mac")
_LAST = PreparedStatement(select(_row.number, _row.digest).order_by(_row.number.desc()).limit(1))
# Nearly always there is none, and then the partial index is empty. A literal, because SQLite uses it for no bound value.
_CHOSEN = PreparedStatement(
    select(*(_row[name] for name in _SEALED)).where(text("kind <> 'followed'")).order_by(_row.number.desc()).limit(1)
)
_SINCE = PreparedStatement(
    select(_row.number).where(_row.digest == bindparam("rules"), _row.number >= bindparam("floor")).limit(1)
)
_PARTS_SINCE = (
    select(rule_sets.c.parts).join(rule_activations, _row.digest == rule_sets.c.digest).where(_row.number >= bindparam("floor"))
)
_CONSTITUTION = select(decision_logs.c.constitution).where(decision_logs.c.decision_id == bindparam("decision"))


class RulesHead(NamedTuple):
    """The rules in force."""

    number: int
    digest: str
    floor: int | None
    """Turns under rules that were last in force before this number intend nothing more. None while rules are followed."""

    @property
    def binds(self) -> bool:
        """True if every process has to use these rules. Otherwise each has those of its files."""
        return self.floor is not None


def find_head(connection: Connection, sealer: Sealer) -> RulesHead | None:
    """Return the rules in force; None if there are none yet.

    Raises `ServiceError` RULES_UNAVAILABLE if an activation was changed or added by hand: then nothing is decided.
    """
    # In this order: an operator's activation that commits between the two is the one that counts.
    last, chosen = _LAST.first(connection, {}), _CHOSEN.first(connection, {})
    if chosen is None:
        return None if last is None else RulesHead(last.number, last.digest, None)
    binds = ActivationKind(chosen.kind).binds
    facts = (chosen.number, chosen.digest, chosen.at, chosen.kind, chosen.floor)
    # What follows an activation by an operator is another one by an operator.
    if chosen.mac not in activation_macs(sealer, *facts) or (binds and last is not None and last.number > chosen.number):
        why = "The rules in force were changed by hand, or activated with another key: nothing is decided; see `log verify`."
        raise ServiceError(ServiceErrorCode.RULES_UNAVAILABLE, why)
    newest = max(last or chosen, chosen, key=lambda one: one.number)
    return RulesHead(newest.number, newest.digest, chosen.floor if binds else None)


def is_activated(connection: Connection) -> bool:
    """True if an operator has ever activated or released rules."""
    return _CHOSEN.first(connection, {}) is not None


def activation_macs(sealer: Sealer, number: int, rules: str, at: datetime, kind: str, floor: int | None) -> list[str]:
    """Return the MACs of an activation by an operator. They do not cover its name, which is erased with its person."""
    facts = (number, rules, at.astimezone(UTC).isoformat(timespec="microseconds"), str(kind), floor or 0)
    return sealer.macs("rules", *facts)


def find_forged(connection: Connection, sealer: Sealer) -> list[int]:
    """Return the activations that were written or changed by hand: those of operators need their MAC, others have none."""
    wanted = select(*(_row[name] for name in _SEALED)).order_by(_row.number)
    forged = []
    for number, rules, at, kind, floor, mac in connection.execute(wanted):
        if kind == ActivationKind.FOLLOWED:
            right = mac is None and floor is None
        else:
            right = mac in activation_macs(sealer, number, rules, at, kind, floor)
        forged += [] if right else [number]
    return forged


def require_own_rules(connection: Connection, head: RulesHead, header: RecordHeader | None, texts: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` unless an engine of your own has the constitution and the conditions in force."""
    parts = connection.execute(select(rule_sets.c.parts).where(rule_sets.c.digest == head.digest)).scalar_one()
    if header is None or header.constitution != digest(parts["constitution"]) or _conditions(header, texts) != _stored(parts):
        raise ConfigurationError(
            f"rules {head.number} are activated here, and this engine has another constitution or other conditions: "
            "`graph-agent rules show --to FOLDER` writes those in force; other rules need a database of their own"
        )


def require_above_floor(connection: Connection, head: RulesHead | None, decision_id: str, operation: CallOperation) -> None:
    """Raise `RulesReplacedError` if the rules of a decision are no longer among those that may intend a call."""
    if head is None or head.floor is None:
        return
    if operation.rules is not None:
        if _SINCE.first(connection, {"rules": operation.rules, "floor": head.floor}) is None:
            raise RulesReplacedError
        return
    own = connection.execute(_CONSTITUTION, {"decision": decision_id}).scalar_one_or_none()
    allowed = connection.execute(_PARTS_SINCE, {"floor": head.floor}).scalars()
    if own not in {digest(parts["constitution"]) for parts in allowed}:
        raise RulesReplacedError


def _conditions(header: RecordHeader, texts: Mapping[str, str]) -> tuple[str, str] | None:
    if header.conditions is None:
        return None
    recorded: dict[str, Any] = json.loads(texts[header.conditions])
    return recorded["conditions"], canonical_json({name: recorded[name] for name in ("roles", "time_zone")})


def _stored(parts: Mapping[str, str]) -> tuple[str, str] | None:
    return (parts["conditions"], parts["condition settings"]) if "conditions" in parts else None
