"""False alarms and power of the drift comparison, by simulation with fixed seeds.

    python -m benchmarks.drift            # 400 comparisons per line
    python -m benchmarks.drift --runs 50  # faster, less exact

A false alarm is a report of drift for two samples with the same true behaviour. "Significance alone" counts reports with any
corrected p-value below 5 %, also of a deviation below the threshold. The last two columns are the power: the share of reports
that detect a shift of 15 points in the mix of intents, spread over five intents or from one intent to another.
"""

from __future__ import annotations

import argparse
import random

from graph_agent.audit.drift.compare import ALPHA, Drift, compare
from tests.audit.drift.simulated import SPREAD_SHIFT, shifted, simulate

SIZES = [(30, 30), (100, 100), (500, 500), (2_000, 2_000), (20_000, 20_000), (30, 500), (500, 30), (30, 20_000), (2_000, 500)]
CLUSTERED = [(500, 500, 500), (500, 500, 100), (500, 500, 20), (500, 500, 5), (2_000, 500, 20), (100, 100, 20), (30, 30, 10)]


def is_significant(drift: Drift) -> bool:
    """True if any comparison is significant, whatever its size."""
    return any(one.p_value < ALPHA for group in drift.groups for one in group.comparisons)


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs: int = parser.parse_args().runs
    print("| baseline | current | users of each | runs | false alarms | significance alone | spread shift | shift of two |")
    print("|---:|---:|---|---:|---:|---:|---:|---:|")
    for then, now, users in [*((then, now, None) for then, now in SIZES), *CLUSTERED]:
        # Large samples take long to simulate, and raise hardly any false alarms.
        count = min(runs, max(20, runs * 1_000 // max(then, now)))
        same = _compare(count, then, now, users, {})
        alarms = sum(drift.drift_detected for drift in same) / count
        significant = sum(is_significant(drift) for drift in same) / count
        spread, two = (
            sum(drift.drift_detected for drift in _compare(count, then, now, users, shift)) / count
            for shift in (SPREAD_SHIFT, {"CREATE_TASK": -15, "LIST_TASKS": +15})
        )
        name = "one decision each" if users is None else users
        print(
            f"| {then:,} | {now:,} | {name} | {count} | {alarms:.1%} | {significant:.1%} | {spread:.0%} | {two:.0%} |",
            flush=True,
        )


def _compare(runs: int, then: int, now: int, users: int | None, shift: dict[str, float]) -> list[Drift]:
    # Seeded by the line, so that each line can be repeated alone.
    chance = random.Random(f"{then} {now} {users} {shift}")
    mix = shifted(shift)
    return [compare([simulate(chance, then, users=users)], [simulate(chance, now, users=users, mix=mix)]) for _ in range(runs)]


if __name__ == "__main__":
    main()
