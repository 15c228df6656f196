"""An event loop whose time passes only when a test advances its clock, so that deadlines do not depend on the machine."""

from __future__ import annotations

import asyncio

from graph_agent.clock import ManualClock


def freeze_loop_time(clock: ManualClock) -> ManualClock:
    """Make `clock` the time of the running loop: its timers wait until the clock is advanced, however long the work takes."""
    asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]  # there is no other way to set it
    return clock
