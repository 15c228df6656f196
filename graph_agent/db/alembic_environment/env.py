"""The script that Alembic runs for every upgrade: it uses the connection and the version table that `migrate` passes."""

import logging

from alembic import context

# Alembic logs every step at INFO, which is too much for an ordinary start.
logging.getLogger("alembic").setLevel(logging.WARNING)
attributes = context.config.attributes
context.configure(connection=attributes["connection"], version_table=attributes["version_table"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
