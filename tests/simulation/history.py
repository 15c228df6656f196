"""The history of a simulation: one line for each event, the same for the same seed."""

from __future__ import annotations

import asyncio
import hashlib


class History:
    """Collects the events of one simulation, and the violations that are seen while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lines: list[str] = []
        self.violations: list[str] = []
        self._loop = loop

    def add(self, who: str, event: str) -> None:
        """Add an event of a process, a client or a server."""
        self.lines.append(f"{self._loop.time():10.3f} {who:8} {event}")

    def violated(self, text: str) -> None:
        """Add a violation, once."""
        if text not in self.violations:
            self.add("check", text)
            self.violations.append(text)

    @property
    def digest(self) -> str:
        """The SHA-256 of all lines, in hex."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
