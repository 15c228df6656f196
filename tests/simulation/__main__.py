"""`make simulate SEEDS=200`: simulate replicas under faults, from many seeds, and print those that violate a promise."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time

from tests.simulation.run import Simulation, simulate, violations_of

_SEEDS_PER_TASK = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate replicas under faults, from many seeds.")
    parser.add_argument("--seeds", type=int, default=200, help="the number of seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="print the history of one seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the number of processes")
    given = parser.parse_args()
    if given.seed is not None:
        return _print_history(simulate(given.seed))
    started = time.monotonic()
    seeds = range(given.first, given.first + given.seeds)
    failed = 0
    with multiprocessing.get_context("spawn").Pool(given.processes, gc.freeze) as pool:
        for seed, violations in pool.imap(violations_of, seeds, chunksize=_SEEDS_PER_TASK):
            if violations:
                failed += 1
                print(f"seed {seed}: {'; '.join(violations)}", flush=True)
    seconds = time.monotonic() - started
    print(f"{len(seeds)} seeds in {seconds:.0f} s, {failed} with violations")
    if failed:
        print("make simulate SEED=n prints the history of a seed")
    return int(failed > 0)


def _print_history(simulation: Simulation) -> int:
    print(simulation.faults, *simulation.lines, sep="\n")
    print(f"seed {simulation.seed}: {len(simulation.violations)} violations, history {simulation.digest}")
    return int(bool(simulation.violations))


if __name__ == "__main__":
    raise SystemExit(main())
