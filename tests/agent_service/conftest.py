"""A separate GRAPH_AGENT_HOME for each test, with databases that are migrated once and copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graph_agent.bootstrap.stores import open_stores
from graph_agent.settings import Settings

VARIABLES = (
    "DATABASE_URL", "GRAPH_AGENT_CONSTITUTION", "GRAPH_AGENT_SECRET", "GRAPH_AGENT_JWT_SECRET",
    "GRAPH_AGENT_JWKS_URL", "GEMINI_API_KEY", "GEMINI_MODEL", "GEMINI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL",
    "OPENAI_BASE_URL",
)  # fmt: skip


@pytest.fixture(scope="session")
def migrated_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    home = tmp_path_factory.mktemp("home")

    async def make() -> None:
        async with open_stores(Settings(GRAPH_AGENT_HOME=home, DATABASE_URL="")):
            pass

    asyncio.run(make())
    return home


@pytest.fixture(autouse=True)
def home(migrated_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The GRAPH_AGENT_HOME of the test; no other variable of the program is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    shutil.copytree(migrated_home, folder)
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(folder))
    return folder
