"""Fixtures of the MCP client's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def longer_ready_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the limit of two seconds, which a busy machine may need to start a server process."""
    # No caller needs another limit.
    monkeypatch.setattr("graph_agent.tools.executor.READY_SECONDS", 120.0)
