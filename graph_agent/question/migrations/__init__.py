"""Creation of the tables of questions."""

from __future__ import annotations

from graph_agent.question.tables import metadata

create = metadata.create_all
