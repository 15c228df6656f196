from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from graph_agent.clock import ManualClock
from tests.chat.world import World, migrated, open_world


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
async def world(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[World]:
    """An installation on SQLite files whose clock moves only when told to."""
    async with open_world(tmp_path, template, clock) as world:
        yield world
