"""The API over a whole installation, asked in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from tests.chat.world import World, migrated, open_world

Client = httpx.AsyncClient


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
async def world(tmp_path: Path, template: Path) -> AsyncGenerator[World]:
    async with open_world(tmp_path, template) as world:
        yield world


@pytest.fixture
def served() -> Callable[[Runtime], Client]:
    """A client of an application over a runtime. An exception that leaves the application fails the test."""
    return lambda runtime: Client(transport=httpx.ASGITransport(create_app(runtime)), base_url="http://localhost")


@pytest.fixture
def client(world: World, served: Callable[[Runtime], Client]) -> Client:
    """A client of the API with the rule-based model and without authentication."""
    return served(world.runtime())
