"""An event loop in which time passes only when a test says so: a deadline strikes when it should, on any machine."""

from __future__ import annotations

import asyncio

from graph_agent.clock import ManualClock


def stand_still(clock: ManualClock) -> ManualClock:
    """Let the running loop go by `clock`: its timers wait, however long the work takes, until the clock is advanced."""
    asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]  # there is no other way to set it
    return clock
