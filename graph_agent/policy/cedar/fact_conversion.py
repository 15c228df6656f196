"""The conversion of the values of facts for Cedar. One that is not as the output schema says is a reason to refuse the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from graph_agent.policy.amounts import is_number
from graph_agent.policy.cedar import values
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.syntax import Reads
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.cedar.values import Unconvertible
from graph_agent.policy.facts import Fact


def cedar_values(types: Mapping[str, CedarType], facts: Sequence[Fact], known: CallFacts, time_zone: str) -> dict[str, Any]:
    """Return the facts of a call that conditions name as Cedar's JSON. `types` are those of the facts of its tool.

    Raises `Unconvertible` if one of them is not known.
    """
    found = {}
    for fact in facts:
        type_ = types.get(fact.name)
        if type_ is None:
            continue
        if (why := known.failed.get(fact.name)) is not None:
            raise Unconvertible(f"'{fact.name}' is not known: {why}")
        if fact.name in known.values:
            found[fact.name] = _converted(type_, known.values[fact.name], fact.name, time_zone)
    return found


def _converted(type_: CedarType, value: Any, name: str, time_zone: str) -> Any:
    """Return a value as Cedar's JSON. Unlike with arguments, one value is no set of it. Raises `Unconvertible`."""
    match type_.kind, value:
        case Kind.RECORD, dict():
            found = {}
            for field_name, part, required in type_.fields:
                path = f"{name}.{field_name}"
                if value.get(field_name) is not None:
                    found[field_name] = _converted(part, value[field_name], path, time_zone)
                elif required:
                    raise Unconvertible(f"'{path}' is missing in what was read")
            return found
        case Kind.RECORD, _ if not type_.fields and value is not None:
            return {}
        case Kind.SET, list():
            assert type_.item is not None
            _require_within(type_, len(value), name)
            return [_converted(type_.item, one, f"an element of {name}", time_zone) for one in value]
        case Kind.DATETIME, str():
            return {"__extn": {"fn": "datetime", "arg": _time(value, name, time_zone)}}
        # A `Decimal` of Python is a text in JSON.
        case ((Kind.LONG | Kind.DECIMAL) as kind, _) if is_number(value) and (kind, type(value)) != (Kind.LONG, str):
            number = values.scaled(type_.kind, value, name)
            _require_within(type_, Decimal(str(value)), name)
            _require_declared(type_, number, name)
            return values.number_json(type_.kind, number)
        case ((Kind.BOOL | Kind.STRING), str() | bool()):
            found = values.convert(type_, value, Reads(()), "", name)
            _require_within(type_, len(value) if isinstance(value, str) else value, name)
            _require_declared(type_, value, name)
            return found
    raise Unconvertible(f"'{name}' has another type in what was read than the conditions expect")


def _require_within(type_: CedarType, size: float | Decimal, name: str) -> None:
    """Raise `Unconvertible` for what the output schema rules out: a proof over the conditions relies on it."""
    if not (type_.low is None or size >= type_.low) or not (type_.high is None or size <= type_.high):
        raise Unconvertible(f"'{name}' is outside the limits of the output schema of its tool")


def _require_declared(type_: CedarType, value: str | int, name: str) -> None:
    if type_.values and value not in type_.values:
        raise Unconvertible(f"'{name}' has a value that the output schema of its tool does not have")


def _time(text: str, name: str, time_zone: str) -> str:
    """Return a date or a time of ISO 8601 as Cedar writes it. One without an offset is in the time zone of the conditions."""
    try:
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(time_zone))
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise Unconvertible(f"'{name}' is no time in what was read") from None
