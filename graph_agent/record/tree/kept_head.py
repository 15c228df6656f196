"""The last signed checkpoint of a log, kept outside of its database: a database that was put back is behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from graph_agent.db.private_file import replace_private_file


class KeptHead(Protocol):
    """The place of a checkpoint, which its text names."""

    async def read(self) -> str | None:
        """Return the signed checkpoint; None if there is none yet. Raises OSError or ValueError if it cannot be read."""

    async def write(self, note: str) -> None:
        """Replace the signed checkpoint. Raises OSError if that is not possible."""


class HeadFile(KeptHead):
    """A file that only its owner can read. Blocking work runs in threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    async def read(self) -> str | None:
        return await asyncio.to_thread(self._read)

    async def write(self, note: str) -> None:
        await asyncio.to_thread(self._write, note)

    def _read(self) -> str | None:
        return self._path.read_text(encoding="utf-8") if self._path.exists() else None

    def _write(self, note: str) -> None:
        # The home may have no other file, if the keys are variables.
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replace_private_file(self._path) as file:
            file.write(note.encode())
