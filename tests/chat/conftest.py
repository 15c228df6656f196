from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from graph_agent.clock import ManualClock
from tests.chat.environment import Environment, migrated, open_environment


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
async def environment(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[Environment]:
    """A complete installation on SQLite files, with a manual clock."""
    async with open_environment(tmp_path, template, clock) as environment:
        yield environment
