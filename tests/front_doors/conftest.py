"""Fixtures: an installation, and each of its front doors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graph_agent.clock import ManualClock
from tests.chat.environment import Environment, open_environment


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is six minutes behind, so that what is asked by it can be late for a process with the real one."""
    return ManualClock(datetime.now(UTC) - timedelta(minutes=6))


@pytest.fixture
async def environment(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[Environment]:
    async with open_environment(tmp_path, template, clock) as environment:
        yield environment
