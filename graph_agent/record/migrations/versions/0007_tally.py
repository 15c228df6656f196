"""The tally of baselines, reports and settlements. The rows that exist now are counted once, here."""

from __future__ import annotations

from alembic import context, op

from graph_agent.record.chain import Sealer
from graph_agent.record.sealed_rows import count_existing_rows

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    read_key = context.config.attributes.get("chain_key")
    # To read the key creates it, which a log without such rows does not need.
    count_existing_rows(op.get_bind(), lambda: Sealer(read_key() if read_key is not None else None))
