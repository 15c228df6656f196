"""Creation of the table of due work."""

from __future__ import annotations

from graph_agent.due.tables import metadata

create = metadata.create_all
