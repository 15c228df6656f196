from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from graph_agent.clock import ManualClock
from tests.chat.environment import Environment, open_environment


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def environment(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[Environment]:
    """A complete installation on SQLite files, with a manual clock."""
    async with open_environment(tmp_path, template, clock) as environment:
        yield environment


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
async def each_environment(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path, clock: ManualClock
) -> AsyncGenerator[Environment]:
    """A complete installation with a manual clock: the test runs on SQLite and on PostgreSQL."""
    url = request.getfixturevalue("migrated_postgresql_url") if request.param == "postgresql" else ""
    async with open_environment(tmp_path, template, clock, url) as environment:
        yield environment
