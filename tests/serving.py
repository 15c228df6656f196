"""A uvicorn server for tests, which does not change the signal handlers of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graph_agent.api.server import Server


class ServerWithoutSignals(Server):
    """A server without signal handlers: two servers that end in the order in which they began would restore the wrong ones."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, on_started=lambda: None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
