"""A log database with its tables, once on each kind."""

from __future__ import annotations

import pytest

from graph_agent.record import chain_tables
from graph_agent.db import Database


@pytest.fixture
def log(database: Database) -> Database:
    """An empty log database. `test_migrations` holds the migrations to the tables that are made here at once."""
    database.write_now(chain_tables.Base.metadata.create_all)
    return database
