"""A test that the time of an operation grows in proportion to the length of its input.

It compares two lengths in one run, so that a slow or busy machine does not matter.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TIMES = 8
"""The ratio of the two lengths: linear work takes 8 times as long, quadratic work 64 times."""

_MAX_RATIO = 40
_NOISE = 0.05
"""Shorter times, in seconds, always pass: quadratic work on the tested lengths takes much longer."""


def grows_with_length(work: Callable[[str], object], text: Callable[[int], str], length: int) -> bool:
    """Return True if `work` takes time in proportion to the length of a text, measured at `length` and an eighth of it.

    Other processes can only make a measurement longer, so the shortest of several counts, and up to three rounds are measured.
    Quadratic work fails in every round.
    """
    short, long = text(length // TIMES), text(length)
    work(short)
    least_short = least_long = float("inf")
    for _ in range(3):
        least_short = min(least_short, *(_cpu(work, short) for _ in range(3)))
        least_long = min(least_long, _cpu(work, long))
        if least_long < max(_NOISE, _MAX_RATIO * least_short):
            return True
    return False


def _cpu(work: Callable[[str], object], text: str) -> float:
    """Return the seconds of CPU time that `work` takes in this thread."""
    with _without_garbage_collection():
        started = time.thread_time()
        work(text)
        return time.thread_time() - started


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, whose runs would count as time of `work`."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
