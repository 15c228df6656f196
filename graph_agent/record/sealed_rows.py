"""The tally of sealed rows: how many baselines, reports and settlements were added, and how many were removed on purpose.

Each row has its own seal, which cannot show that a row is missing. The tally is sealed too, and is changed in the transaction
that adds or removes a row. Its sum covers the seals of all rows, so that one row cannot be replaced by another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from graph_agent.db.prepared import insert_new
from graph_agent.models.base import Frozen
from graph_agent.record.chain import Sealer
from graph_agent.record.row_seal import row_seal, with_seal
from graph_agent.record.tables import baselines_table, reports_table
from graph_agent.record.tamper.row_comparison import select_raw

TALLY = "sealed rows"
"""The id of the report that is the tally."""
PRUNE_HORIZON = "pruned"
"""The id of the report that says up to which time decisions were pruned. It is replaced, so the tally leaves it out."""

_UNCOUNTED = (TALLY, PRUNE_HORIZON)
SEALED_TABLES = (baselines_table, reports_table)

_MODULUS = 1 << 256


class Tally(Frozen):
    """The numbers of rows that were added and removed, and the sum of the seals of those that are left."""

    added: int = Field(default=0, ge=0)
    removed: int = Field(default=0, ge=0)
    sum: str = "0"

    @property
    def rows(self) -> int:
        return self.added - self.removed

    def with_added(self, seals: Iterable[str]) -> Tally:
        new = list(seals)
        return Tally(added=self.added + len(new), removed=self.removed, sum=_sum(self.sum, new, 1))

    def with_removed(self, seals: Iterable[str]) -> Tally:
        old = list(seals)
        return Tally(added=self.added, removed=self.removed + len(old), sum=_sum(self.sum, old, -1))


def add_row(connection: Connection, table: Table, row: Mapping[str, Any], sealer: Sealer) -> None:
    """Insert a row with its seal, and count it."""
    sealed = with_seal(connection, table, row, sealer)
    tally = _locked_tally(connection, row["created_at"], sealer)
    connection.execute(insert(table), sealed)
    _store_tally(connection, tally.with_added([sealed["seal"]]), sealer)


def remove_reports(connection: Connection, which: ColumnElement[bool], sealer: Sealer) -> None:
    """Delete the reports that match, and count them as removed on purpose."""
    if (first := connection.scalar(select(reports_table.c.created_at).where(which).limit(1))) is None:
        return
    tally = _locked_tally(connection, first, sealer)
    seals = connection.execute(delete(reports_table).where(which).returning(reports_table.c.seal)).scalars().all()
    # A row without a seal was added by hand and never counted.
    _store_tally(connection, tally.with_removed([seal for seal in seals if seal]), sealer)


def read_tally(connection: Connection, sealer: Sealer) -> Tally | None:
    """Return the tally: an empty one if there is none, None if it was changed by hand."""
    row = connection.execute(select_raw(reports_table).where(reports_table.c.report_id == TALLY)).mappings().one_or_none()
    if row is None:
        return Tally()
    if not sealer.accepts(row["seal"], lambda candidate: row_seal(reports_table, row, candidate)):
        return None
    stored = connection.scalar(select(reports_table.c.report).where(reports_table.c.report_id == TALLY))
    try:
        return Tally.model_validate(stored)
    except ValidationError:
        return None


def count_rows(connection: Connection) -> Tally:
    """Return the tally of the rows that are there. A row without a seal was added by hand and is not counted."""
    counted = reports_table.c.report_id.not_in(_UNCOUNTED)
    stored = (select(baselines_table.c.seal), select(reports_table.c.seal).where(counted))
    seals = [seal for statement in stored for seal in connection.execute(statement).scalars()]
    return Tally().with_added(seal for seal in seals if seal)


def count_existing_rows(connection: Connection, make_sealer: Callable[[], Sealer]) -> None:
    """Store the first tally, which counts the existing rows; without rows no tally is stored."""
    tally = count_rows(connection)
    if tally.rows:
        sealer = make_sealer()
        _locked_tally(connection, datetime.now(UTC), sealer)
        _store_tally(connection, tally, sealer)


def _store_tally(connection: Connection, tally: Tally, sealer: Sealer) -> None:
    stored_at = connection.scalar(select(reports_table.c.created_at).where(reports_table.c.report_id == TALLY))
    assert stored_at is not None
    sealed = with_seal(connection, reports_table, _row(tally, stored_at), sealer)
    connection.execute(update(reports_table).where(reports_table.c.report_id == TALLY), sealed)


def _locked_tally(connection: Connection, at: datetime, sealer: Sealer) -> Tally:
    # Inserted before it is locked: of two processes that add the first row, one waits for the other.
    insert_new(connection, reports_table, [with_seal(connection, reports_table, _row(Tally(), at), sealer)])
    connection.execute(select(reports_table.c.report_id).where(reports_table.c.report_id == TALLY).with_for_update()).close()
    # A tally that was changed by hand is not repaired: it stays different, so that `log verify` reports it.
    return read_tally(connection, sealer) or Tally()


def _row(tally: Tally, at: datetime) -> dict[str, Any]:
    return {"report_id": TALLY, "kind": TALLY, "created_at": at, "passed": True, "report": tally.to_json()}


def _sum(start: str, seals: Iterable[str], sign: int) -> str:
    total = int(start, 16)
    for seal in seals:
        total += sign * int.from_bytes(hashlib.sha256(seal.encode()).digest())
    return f"{total % _MODULUS:x}"
