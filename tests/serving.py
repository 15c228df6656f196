"""A real uvicorn inside a test, which leaves the process's signal handlers alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class GuestServer(uvicorn.Server):
    """Two servers that end in another order than they began would leave each other's handlers behind."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
