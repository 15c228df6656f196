"""`python -m benchmarks.overload [TURNS ...]`: bursts of turns at a server whose model never answers.

The figures say how many turns were accepted, how long the answers took, how many rows were open afterwards, and how the server
ended.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from graph_agent.api.connections import raise_descriptor_limit
from tests.overload import DEADLINE_SECONDS, measure

TURNS = (900, 1000, 1500)
REFUSAL_SECONDS = 0.1


def main(sizes: list[int]) -> None:
    """Print the figures of one burst of each size."""
    raise_descriptor_limit()
    for turns in sizes:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(Path(folder), turns)
        accepted, refused = result.took(200), result.took(503)
        print(f"{turns} turns at once, deadline {DEADLINE_SECONDS:g} s: {result.statuses()}")
        if accepted:
            print(f"  accepted: last answer after {accepted[-1]:.2f} s")
        if refused:
            late = sum(seconds > REFUSAL_SECONDS for seconds in refused)
            print(
                f"  refused, at the client: median {refused[len(refused) // 2] * 1000:.0f} ms, "
                f"95 % within {refused[len(refused) * 95 // 100] * 1000:.0f} ms, last {refused[-1] * 1000:.0f} ms, "
                f"{late} after more than {REFUSAL_SECONDS * 1000:.0f} ms"
            )
            counts = ", ".join(f"{count} within {bound * 1000:g} ms" for bound, count in result.refused_within.items())
            print(f"  refused, at the server: {counts}")
        print(f"  every row closed after {result.all_closed_at:.2f} s")
        print(f"  after SIGTERM: {result.left_open} rows open, exit code {result.exit_code}")
        print(f"  /healthz in the middle: {result.quick_answer_seconds * 1000:.0f} ms")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(TURNS))
