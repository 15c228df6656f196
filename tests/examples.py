"""How many examples a generated test tries: all of them in CI, and a quarter in `make test`."""

from __future__ import annotations

import os

PART = 4


def examples(count: int) -> int:
    """Return `count` where CI is set, as every CI service does and `.ci/run` does itself; otherwise a quarter of it."""
    return count if os.environ.get("CI") else count // PART
