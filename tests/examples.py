"""How many examples a generated test tries: all of them in `make nightly`, and otherwise a quarter."""

from __future__ import annotations

import os

PART = 4


def examples(count: int) -> int:
    """Return `count` where ALL_EXAMPLES is set, as `make nightly` does; otherwise a quarter of it."""
    return count if os.environ.get("ALL_EXAMPLES") else count // PART
