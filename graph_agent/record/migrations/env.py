"""The entry point that Alembic loads for the migrations of the log."""

from graph_agent.db.migration_env import run

run()
