"""The time of a SQLite database in a test: that of a clock which the test moves, instead of the machine's."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC

from graph_agent.ports import Clock

_clock: ContextVar[Clock | None] = ContextVar("clock of databases", default=None)


@contextmanager
def database_time(clock: Clock | None) -> Iterator[None]:
    """Let databases that are opened in this context have the time of `clock`; None is the machine's."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


def given_clock() -> Clock | None:
    """Return the clock of the databases that are opened in this context."""
    return _clock.get()


def use_time(driver: sqlite3.Connection, clock: Clock) -> None:
    """Replace the function of SQLite that reads the time. Everything but `now` is computed as before."""
    # A connection of its own: a function cannot use the connection that calls it.
    own, using = sqlite3.connect(":memory:", check_same_thread=False), threading.Lock()

    def strftime(form: str, at: str, *modifiers: str) -> str | None:
        if at == "now":
            at = clock.now().astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
        places = ", ".join("?" * (2 + len(modifiers)))
        with using:
            found: str | None = own.execute(f"SELECT strftime({places})", (form, at, *modifiers)).fetchone()[0]
        return found

    driver.create_function("strftime", -1, strftime)
