"""The time limit of one replay.

A replay usually takes milliseconds. A record from a file, another constitution or a model may make it longer.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REPLAY_SECONDS = 30.0
"""The longest time of one replay."""
_ALARM_MARGIN_SECONDS = 1.0
"""The time that a replay has to end by itself, at its next step or at an `await`."""


class ReplayTimeout(BaseException):
    """A replay has exceeded its time within one step. Not an `Exception`, which a step may handle and continue."""


def too_long(seconds: float) -> str:
    """Return the sentence about a replay that was ended."""
    return f"the replay took longer than {seconds:g} s and was ended"


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `ReplayTimeout` in this thread after `seconds` and a margin, whatever it computes.

    It uses the alarm of the process, which only the main thread can handle: in another thread it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise ReplayTimeout

    before = signal.signal(signal.SIGALRM, interrupt)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds + _ALARM_MARGIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        # The alarm of someone else, such as a test runner, may come late, but it comes.
        signal.setitimer(signal.ITIMER_REAL, left, interval)
