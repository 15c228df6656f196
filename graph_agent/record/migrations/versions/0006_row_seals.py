"""Seals of baselines and reports. The rows that exist now are sealed once, here.

The prune horizon is a report too. A log that was pruned before gets one: what is older than its oldest decision
counts as pruned.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import context, op

from graph_agent.db import UtcDateTime
from graph_agent.record.chain import Sealer
from graph_agent.record.row_seal import row_seal
from graph_agent.record.tamper.pruned import store_prune_horizon

revision = "0006"
down_revision = "0005"

_BASELINE = ("baseline_id", "name", "description", "created_at", "since", "until", "decisions", "profiles")
_REPORT = ("report_id", "kind", "created_at", "passed", "report")
_PRUNED = "SELECT 1 FROM record_chains WHERE cut_n > 0 UNION SELECT 1 FROM record_links WHERE cut IS NOT NULL"


def upgrade() -> None:
    connection = op.get_bind()
    tables = [sa.table("baselines", *map(sa.column, _BASELINE)), sa.table("reports", *map(sa.column, _REPORT))]
    rows = [(table, row) for table in tables for row in connection.execute(sa.select(table)).mappings().all()]
    for table in tables:
        op.add_column(table.name, sa.Column("seal", sa.String(64)))
    was_pruned = connection.execute(sa.text(_PRUNED)).first() is not None
    # To read the key creates it, which an empty log does not need.
    if not rows and not was_pruned:
        return
    read_key = context.config.attributes.get("chain_key")
    sealer = Sealer(read_key() if read_key is not None else None)
    for table, row in rows:
        key = table.columns[0].name
        sealed = sa.table(table.name, sa.column("seal")).update().where(sa.column(key) == row[key])
        connection.execute(sealed.values(seal=row_seal(table, row, sealer)))
    if was_pruned:
        oldest = sa.select(sa.func.min(sa.column("created_at", UtcDateTime))).select_from(sa.table("decision_logs"))
        store_prune_horizon(connection, connection.scalar(oldest) or datetime.now(UTC), sealer)
