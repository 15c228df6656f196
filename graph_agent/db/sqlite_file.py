"""The file of a SQLite database: its mode, and the detection that it was removed or replaced.

A connection to a file that was removed or replaced reports no error, but its writes are lost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

from graph_agent.db.errors import DatabaseUnavailableError

_log = logging.getLogger(__name__)

_MODE = 0o600
_SIDE_FILES = ("-wal", "-shm")
"""SQLite creates them with the mode of the database."""


class SqliteFile:
    """A database file, identified by device and inode since its first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._reported = False

    def check(self) -> None:
        """Create the file if this is its first use. Raises `DatabaseUnavailableError` if it was removed or replaced since."""
        with self._opening:
            if self._identity is None:
                self._make_private()
                self._identity = self._current()
                return
        if self._current() != self._identity:
            self._report()
            raise DatabaseUnavailableError("the database file was removed or replaced")

    def _make_private(self) -> None:
        # Errors are left to SQLite, which reports them when it opens the file.
        with contextlib.suppress(OSError):
            # An existing file is not opened: closing this descriptor would release the POSIX locks of SQLite's connections.
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
        for path in (self._path, *(self._path.with_name(self._path.name + suffix) for suffix in _SIDE_FILES)):
            with contextlib.suppress(OSError):
                if path.stat().st_mode & 0o077:
                    path.chmod(_MODE)

    def _current(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _report(self) -> None:
        if not self._reported:
            self._reported = True
            _log.error("the database file %s was removed or replaced while it was in use: restart this process", self._path)
