"""The fixtures of the API, for the integration that serves a route of it."""

from __future__ import annotations

from tests.api.conftest import client, served

__all__ = ["client", "served"]
