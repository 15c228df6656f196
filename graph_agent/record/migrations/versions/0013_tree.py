"""Counts of the metrics, the operations of calls, and the tree of the record, which replaces the chains.

Closed decisions, baselines, reports and settlements are added to it in their order, with one statement that says that nothing
about their time before is verified.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from graph_agent.db import UtcDateTime
from graph_agent.record.tables import call_operations, metadata
from graph_agent.record.tree.leaves import Sealer, new_leaf, row_text
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement
from graph_agent.record.tree.tables import LeafKind

revision = "0013"
down_revision = None

_BASELINE = ("baseline_id", "name", "description", "created_at", "since", "until", "decisions", "profiles")
_REPORT = ("report_id", "kind", "created_at", "passed", "report")
_HORIZON, _TALLY = "pruned", "sealed rows"
_BATCH = 500


def upgrade() -> None:
    connection = op.get_bind()
    # Some of the earlier revisions have some of these tables. The others are created as they are declared now, because the
    # leaves that are added here are inserted into the declared tables: a later revision may find its changes made already.
    metadata.create_all(connection)
    for index in call_operations.indexes:
        index.create(connection, checkfirst=True)
    for table in ("decision_logs", "baselines", "reports"):
        op.add_column(table, sa.Column("salt", sa.String(44)))
    horizon = _horizon(connection)
    op.execute(f"DELETE FROM reports WHERE report_id IN ('{_HORIZON}', '{_TALLY}')")
    read_key = context.config.attributes.get("record_key")
    ids = _decision_ids(connection)
    others = sum(connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0 for table in ("baselines", "reports"))
    if ids or others or horizon:
        # To read the key creates it, which an empty log does not need.
        sealer = Sealer(read_key() if read_key is not None else None)
        _add_decisions(connection, ids, sealer)
        _add_rows(connection, sealer)
        imported = Statement(
            statement=StatementKind.IMPORTED, at=datetime.now(UTC), count=len(ids) + others, before=horizon, verified=False
        )
        add_statement(connection, imported, sealer)
    op.drop_table("record_links")
    op.drop_table("record_chains")
    for table in ("baselines", "reports"):
        op.drop_column(table, "seal")


def _horizon(connection: sa.Connection) -> datetime | None:
    """Return the time before which decisions may be missing because they were pruned; None if none was."""
    reports = sa.table("reports", sa.column("report_id"), sa.column("created_at", UtcDateTime))
    stored = connection.scalar(sa.select(reports.c.created_at).where(reports.c.report_id == _HORIZON))
    pruned = "SELECT 1 FROM record_chains WHERE cut_n > 0 UNION SELECT 1 FROM record_links WHERE cut IS NOT NULL"
    if stored is not None or connection.execute(sa.text(pruned)).first() is None:
        return stored
    oldest = sa.select(sa.func.min(sa.column("created_at", UtcDateTime))).select_from(sa.table("decision_logs"))
    return connection.scalar(oldest) or datetime.now(UTC)


def _decision_ids(connection: sa.Connection) -> list[str]:
    """Return the closed decisions in the order of their chains."""
    ordered = (
        "SELECT d.decision_id FROM decision_logs d LEFT JOIN record_links l ON l.decision_id = d.decision_id "
        "LEFT JOIN record_chains c ON c.chain = l.chain WHERE d.record IS NOT NULL "
        "ORDER BY c.started_at, c.chain, l.n, d.decision_id"
    )
    return list(connection.execute(sa.text(ordered)).scalars())


def _add_decisions(connection: sa.Connection, ids: list[str], sealer: Sealer) -> None:
    logs = sa.table("decision_logs", sa.column("decision_id"), sa.column("record"), sa.column("salt"))
    for start in range(0, len(ids), _BATCH):
        part = ids[start : start + _BATCH]
        found = sa.select(logs.c.decision_id, logs.c.record).where(logs.c.decision_id.in_(part))
        records = {row.decision_id: row.record for row in connection.execute(found)}
        for decision_id in part:
            _add(connection, LeafKind.DECISION, logs, decision_id, records[decision_id], sealer)


def _add_rows(connection: sa.Connection, sealer: Sealer) -> None:
    for name, columns in (("baselines", _BASELINE), ("reports", _REPORT)):
        table = sa.table(name, *map(sa.column, (*columns, "salt")))
        for row in connection.execute(sa.select(table).order_by(table.columns["created_at"])).mappings().all():
            kind = LeafKind.BASELINE if name == "baselines" else _report_kind(row["kind"])
            _add(connection, kind, table, row[columns[0]], row_text(table, row), sealer)


def _report_kind(kind: str) -> LeafKind:
    return LeafKind.SETTLEMENT if kind == "settlement" else LeafKind.REPORT


def _add(connection: sa.Connection, kind: LeafKind, table: Any, item: str, text: str, sealer: Sealer) -> None:
    leaf = new_leaf(kind, item, text, sealer)
    key = next(iter(table.columns))
    connection.execute(table.update().where(key == item).values(salt=leaf.salt))
    leaf.store(connection)
