"""How long `make test` takes on this machine: what it says at its start."""

from __future__ import annotations

import os
from pathlib import Path

CPU_MINUTES = 15
"""The processor time of `make test`, about, from samples of its tests: an estimate until it has run once."""


def expected_time(last: Path) -> str:
    """Return the sentence for a run; `last` has the seconds of the last one here, if there was one."""
    try:
        minutes = float(last.read_text()) / 60
    except (OSError, ValueError):
        processors = os.cpu_count() or 1
        minutes = CPU_MINUTES / processors
        return f"All tests: about {max(1, round(minutes))} minutes on {processors} processors, if nothing else uses them."
    return f"All tests: the last run took {max(1, round(minutes))} minutes here."
