"""The copy of a database into an empty one, also from SQLite to PostgreSQL or back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Table, TableClause, Text, column, func, insert, select, table, text
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.db.database import Database, parse_url
from graph_agent.db.types import JsonText
from graph_agent.errors import ConfigurationError

_ROWS_AT_ONCE = 500


def require_file(url: str) -> None:
    """Raise `ConfigurationError` if `url` cannot be opened, or is that of a missing SQLite file, which would be created."""
    parsed, _ = parse_url(url)
    if parsed.drivername.startswith("sqlite") and not Path(parsed.database or "").is_file():
        raise ConfigurationError(f"there is no database file {parsed.database or ''}")


def copy_tables(source: Database, target: Database, tables: Sequence[Table]) -> dict[str, int]:
    """Copy all rows of `tables`, which exist in both databases; return the number of rows of each table.

    One snapshot is read and one transaction is written, so that everything is copied or nothing. `tables` are in the order of
    their foreign keys. Raises `ConfigurationError` if the target has rows, or cannot store one.
    """

    def copy_all(reading: Connection, writing: Connection) -> dict[str, int]:
        for each in tables:
            if writing.execute(select(each).limit(1)).first() is not None:
                raise ConfigurationError(f"the target is not empty: its table {each.name} has rows")
        return {each.name: _copy(reading, writing, each) for each in tables}

    return source.read_now(lambda reading: target.write_now(lambda writing: copy_all(reading, writing)))


def _copy(reading: Connection, writing: Connection, declared: Table) -> int:
    raw = _without_json(declared)
    copied = 0
    try:
        with reading.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(raw)) as rows:
            for part in rows.mappings().partitions():
                writing.execute(insert(raw), [dict(row) for row in part])
                copied += len(part)
    except SQLAlchemyError as exc:
        why = f"a row of the table {declared.name} cannot be stored in the target; nothing was copied"
        raise ConfigurationError(why) from exc
    if writing.scalar(select(func.count()).select_from(raw)) != copied:
        raise ConfigurationError(f"not every row of the table {declared.name} was copied; nothing is stored in the target")
    numbered = declared.autoincrement_column
    if numbered is not None and copied and writing.dialect.name == "postgresql":
        # Numbers that are inserted do not advance the sequence.
        advance = f"SELECT setval(pg_get_serial_sequence(:name, :number), (SELECT max({numbered.name}) FROM {declared.name}))"
        writing.execute(text(advance), {"name": declared.name, "number": numbered.name})
    return copied


def _without_json(declared: Table) -> TableClause:
    """Return the table with JSON as text, which is copied to the letter: a record that was damaged stays as it is."""
    types = {each.name: Text() if isinstance(each.type, JsonText) else each.type for each in declared.columns}
    return table(declared.name, *(column(name, kind) for name, kind in types.items()))
