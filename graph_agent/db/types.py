"""The column types of all tables; they behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import DateTime, Dialect, Enum, MetaData, String, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from graph_agent.models.canonical import canonical_json

NAMING_CONVENTION = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
}


def new_metadata() -> MetaData:
    """Return an empty `MetaData` whose constraints get predictable names, so that migrations can refer to them."""
    return MetaData(naming_convention=NAMING_CONVENTION)


class UtcDateTime(TypeDecorator[datetime]):
    """A timezone-aware time in UTC with microseconds.

    `timestamptz` on PostgreSQL. SQLite has no type for times, so it stores ISO text of a fixed width, whose order is the order
    of the times. A naive time raises ValueError (which SQLAlchemy wraps in StatementError).
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(32))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a time zone cannot be stored")
        value = value.astimezone(UTC)
        return value.isoformat(timespec="microseconds") if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return (datetime.fromisoformat(value) if dialect.name == "sqlite" else value).astimezone(UTC)


class JsonText(TypeDecorator[Any]):
    """JSON as canonical text, so that equal values have equal text. None is NULL; NaN and infinities raise ValueError."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value is None else storable_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value is None else json.loads(value)


def storable_json(value: Any) -> str:
    """Return canonical JSON that both databases can store: lone surrogates, which UTF-8 cannot encode, are escaped."""
    text = canonical_json(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text


UuidText = String(36)
"""A UUID as 36 characters of lower-case text."""


def enum_by_value(kind: type[StrEnum], name: str) -> Enum:
    """Return a column type for `kind`: the value as text, with a CHECK constraint named after `name`."""
    return Enum(
        kind,
        name=name,
        values_callable=lambda members: [member.value for member in members],
        native_enum=False,
        create_constraint=True,
        validate_strings=True,
        length=max(32, *(len(member.value) for member in kind)),
    )
