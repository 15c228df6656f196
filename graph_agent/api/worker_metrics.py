"""The exchange of metrics between the workers of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ANSWER_SECONDS = 2.0
"""A worker that does not answer in this time is left out of a scrape."""


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """The sockets of the workers, in a folder that only their user can open."""

    folder: Path
    number: int
    """The number of this worker; one that is restarted keeps it."""

    @asynccontextmanager
    async def serve(self, text: Callable[[], bytes]) -> AsyncGenerator[None]:
        """Give the metrics of this process to the other workers."""

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(text())
            writer.close()

        async with await asyncio.start_unix_server(answer, self.folder / str(self.number)):
            yield

    async def texts(self) -> dict[str, str]:
        """Return the metrics of each worker that answers, by its number."""
        sockets = sorted(self.folder.iterdir(), key=lambda path: int(path.name))
        answers = await asyncio.gather(*map(_read, sockets), return_exceptions=True)
        return {path.name: answer for path, answer in zip(sockets, answers, strict=True) if isinstance(answer, str)}


async def _read(path: Path) -> str:
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()
