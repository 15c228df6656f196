"""Creation of the tables of tasks and operations."""

from __future__ import annotations

from graph_agent.task_server.store import metadata

create = metadata.create_all
