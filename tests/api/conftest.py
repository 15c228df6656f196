"""Fixtures for tests of the API: a client in the same process, over a complete installation."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from tests.chat.environment import Environment

Client = httpx.AsyncClient


@pytest.fixture
def served() -> Callable[[Runtime], Client]:
    """A client of an application over a runtime. An exception that leaves the application fails the test."""
    return lambda runtime: Client(transport=httpx.ASGITransport(create_app(runtime)), base_url="http://localhost")


@pytest.fixture
def client(environment: Environment, served: Callable[[Runtime], Client]) -> Client:
    """A client of the API with the embedded model and without authentication."""
    return served(environment.runtime())
