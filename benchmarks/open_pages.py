"""The cost of open pages for a server: `python -m benchmarks.open_pages [PAGES]`.

Each page asks what the list of decisions asks every five seconds, and whether something is stopped every ten.
Printed is the CPU of the server for them.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.http import cpu_of, is_answered, send, serving

PAGES = 200
TURNS = 100
"""The decisions that the list has."""
_SECONDS = 30.0
_REQUESTS = tuple(
    (b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path, seconds)
    for path, seconds in ((b"/api/decisions?limit=50", 5.0), (b"/api/stops", 10.0))
)


async def _page(port: int, number: int, pages: int) -> None:
    """Ask again and again, each page a little later than the one before."""

    async def ask(request: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds * number / pages)
        while True:
            # The server closes an idle connection earlier than the next request comes.
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await is_answered(reader, writer, request)
            writer.close()
            await asyncio.sleep(seconds)

    await asyncio.gather(*(ask(request, seconds) for request, seconds in _REQUESTS))


async def measure(server: int, port: int, pages: int) -> None:
    """Print the CPU of a server with this process id and port."""
    await send(port, TURNS)
    opened = [asyncio.create_task(_page(port, number, pages)) for number in range(pages)]
    await asyncio.sleep(_REQUESTS[-1][1])
    before = cpu_of(server)
    await asyncio.sleep(_SECONDS)
    spent = (cpu_of(server) - before) / _SECONDS
    assert not any(one.done() for one in opened), "a page got no answer"
    for one in opened:
        one.cancel()
    await asyncio.wait(opened)
    print(f"{pages} open pages take {spent * 100:.0f} % of a core")


def main(pages: int) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (server, port):
        asyncio.run(measure(server, port, pages))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAGES)
