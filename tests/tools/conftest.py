"""What all tests of the MCP client share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a server is ready is asked here, not whether a busy machine starts it within two seconds."""
    monkeypatch.setattr("graph_agent.tools.executor.READY_SECONDS", 120.0)
