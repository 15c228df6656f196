"""How the tables of tasks and operations are created."""

from __future__ import annotations

from graph_agent.task_server.tables import metadata

OLDEST = "0001"
create = metadata.create_all
