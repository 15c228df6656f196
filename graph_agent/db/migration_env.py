"""The body of every package's `migrations/env.py`: it runs Alembic on the connection that `migrate` passes."""

from __future__ import annotations

import logging

from alembic import context


def run() -> None:
    """Upgrade the package's tables to the requested revision within the open transaction."""
    # Alembic logs every step at INFO, which is too much for an ordinary start.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"],
        version_table=attributes["version_table"],
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
