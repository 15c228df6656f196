"""A calibration loop: how fast this machine is right now."""

from __future__ import annotations

import statistics
import time


def spin() -> float:
    """CPU seconds of a fixed piece of arithmetic."""
    started = time.process_time()
    total = 0
    for number in range(20_000):
        total += number * number
    return time.process_time() - started


def spin_microseconds(repeats: int = 200) -> float:
    """The median of many spins, in microseconds."""
    return statistics.median(spin() for _ in range(repeats)) * 1e6
