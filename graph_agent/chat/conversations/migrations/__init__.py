"""Creation of the tables of conversations."""

from __future__ import annotations

from graph_agent.chat.conversations.tables import metadata

create = metadata.create_all
