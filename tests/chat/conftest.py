from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from graph_agent.clock import ManualClock
from tests.chat.environment import Environment, open_environment


@pytest.fixture
async def environment(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[Environment]:
    """A complete installation on SQLite files, with a manual clock."""
    async with open_environment(tmp_path, template, clock) as environment:
        yield environment


@pytest.fixture(params=[False, True], ids=["before", "after"])
def after(request: pytest.FixtureRequest) -> bool:
    """True if a process stops after its commit, False if it stops before it."""
    found: bool = request.param
    return found
