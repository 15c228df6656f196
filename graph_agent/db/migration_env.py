"""What every owner's `migrations/env.py` runs: Alembic on the connection that `migrate` hands over."""

from __future__ import annotations

import logging

from alembic import context


def run() -> None:
    """Bring the owner's tables to the wanted revision inside the transaction that is already open."""
    # Alembic reports every step at INFO; a start-up says nothing.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"],
        version_table=attributes["version_table"],
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
