"""How the work on a text grows with its length: a ratio in one run, which a slow or busy machine does not change."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TIMES = 8
"""The longer text is so many times as long: work in proportion grows by 8, quadratic work by 64."""

_MOST = 40
_NOISE = 0.05
"""Seconds that are not judged: quadratic work on the lengths tested here takes many times as much."""


def grows_with_length(work: Callable[[str], object], text: Callable[[int], str], length: int) -> bool:
    """Whether `work` on `text(length)` takes about `TIMES` as long as on an eighth of it, and not about its square.

    A disturbance only ever adds, so the least of several measurements counts, and more are made while they look bad. What
    is quadratic is so each time.
    """
    short, long = text(length // TIMES), text(length)
    work(short)
    least_short = least_long = float("inf")
    for _ in range(3):
        least_short = min(least_short, *(_cpu(work, short) for _ in range(3)))
        least_long = min(least_long, _cpu(work, long))
        if least_long < max(_NOISE, _MOST * least_short):
            return True
    return False


def _cpu(work: Callable[[str], object], text: str) -> float:
    """Seconds of this thread's CPU."""
    with _without_collections():
        started = time.thread_time()
        work(text)
        return time.thread_time() - started


@contextmanager
def _without_collections() -> Iterator[None]:
    """A collection is paid for by whoever happens to be at work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
