"""The entry point that Alembic loads for the migrations of the task server."""

from graph_agent.db.migration_env import run

run()
