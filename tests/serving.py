"""A uvicorn server for tests, which does not change the signal handlers of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graph_agent.api.server import Server


class ServerWithoutSignals(Server):
    """A server without signal handlers: two servers that end in the order in which they began would restore the wrong ones."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
