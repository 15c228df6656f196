"""Limits on open connections: in total and for each client address, below the limit on file descriptors.

Without them idle connections use up the descriptors of the process, and it can accept no other client. At a limit the
connection that has waited longest for a complete request is closed to make room for the new one. A connection whose request is
being served is never closed for another.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import select
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 8192
MAX_ACCEPTS_PER_TICK = 256
RESERVED_DESCRIPTORS = 256
"""Descriptors for the database, tool servers and models, and for connections that are accepted or closed but not counted."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The largest numbers of connections."""

    total: int
    per_address: int
    """Less than `total`, so that one client cannot keep the others out; a proxy counts as one client."""
    accepts_per_tick: int = MAX_ACCEPTS_PER_TICK
    """The largest number that the event loop accepts before it counts them. A larger burst is accepted over several ticks."""

    @classmethod
    def below(cls, descriptors: int) -> ConnectionLimits:
        """Return the limits for a process that may open this many descriptors."""
        total = min(MAX_CONNECTIONS, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2, 2))
        return cls(total, max(1, total * 3 // 4), max(1, min(MAX_ACCEPTS_PER_TICK, (descriptors - total) // 4)))


class OpenConnections:
    """The open connections of a server, and those among them that have no complete request yet."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._addresses: dict[asyncio.Transport, str] = {}
        self._waiting: dict[asyncio.Transport, str] = {}
        """The address of each connection that waits for a request. The one that has waited longest comes first."""
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, connection: asyncio.Transport, address: str) -> bool:
        """Count a new connection, which waits for its request. Return False if there is no room for it."""
        at_own_limit = self._counts[address] >= self.limits.per_address
        if (at_own_limit or len(self) >= self.limits.total) and not self._evict_first(address if at_own_limit else None):
            return False
        self._addresses[connection] = address
        self._counts[address] += 1
        self.mark_waiting(connection)
        return True

    def remove(self, connection: asyncio.Transport) -> None:
        """Stop counting a connection; it may have been removed before."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self.mark_serving(connection)
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def mark_waiting(self, connection: asyncio.Transport) -> None:
        """Note that the connection waits for a request from now on."""
        if (address := self._addresses.get(connection)) is not None:
            self._waiting.setdefault(connection, address)

    def mark_serving(self, connection: asyncio.Transport) -> None:
        """Note that the connection has a complete request, which is being served."""
        self._waiting.pop(connection, None)

    def _evict_first(self, address: str | None) -> bool:
        """Close the connection that has waited longest, of one address or of all; return False if none waits for its client."""
        for connection, its_address in self._waiting.items():
            # In a burst the loop accepts many connections before it reads what they have sent already.
            if address in (None, its_address) and not _has_unread_bytes(connection):
                _log.info("a connection without a complete request is closed to make room")
                self.remove(connection)
                connection.abort()
                return True
        return False


def _has_unread_bytes(connection: asyncio.Transport) -> bool:
    """True if the kernel has bytes of the client that the event loop has not read yet."""
    found = connection.get_extra_info("socket")
    if found is None:
        return False
    poll = select.poll()
    poll.register(found.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open descriptors to the hard limit, and return the limit."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems report a hard limit that cannot be set as the soft limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        limit = hard
    # RLIM_INFINITY is -1, which is less than every other limit.
    return MAX_CONNECTIONS + RESERVED_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit
