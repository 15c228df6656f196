"""`make simulate SEEDS=200`: simulate replicas under faults, from many seeds, and print those that violate a promise."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time

from tests.simulation import planted

_SEEDS_PER_TASK = 10


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate replicas under faults, from many seeds.")
    parser.add_argument("--seeds", type=int, default=200, help="the number of seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="print the history of one seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the number of processes")
    parser.add_argument("--until-found", action="store_true", help="stop at the first violation, and run its seed again")
    parser.add_argument("--defect", choices=planted.DEFECTS, help="plant a defect in the package first")
    given = parser.parse_args()
    if given.defect is not None:
        planted.plant(planted.DEFECTS[given.defect])
    # Imported here, because a defect is planted before the package is imported.
    from tests.simulation.run import simulate, violations_of

    if given.seed is not None:
        simulation = simulate(given.seed)
        print(simulation.faults, *simulation.lines, sep="\n")
        print(f"seed {given.seed}: {len(simulation.violations)} violations, history {simulation.digest}")
        return int(bool(simulation.violations))
    seeds = range(given.first, given.first + given.seeds)
    started, failed, run = time.monotonic(), 0, 0
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(given.processes) as pool:
        for seed, violations, digest in pool.imap(violations_of, seeds, 1 if given.until_found else _SEEDS_PER_TASK):
            run += 1
            if not violations:
                continue
            failed += 1
            print(f"seed {seed}: {' '.join('; '.join(violations).split())}", flush=True)
            if given.until_found:
                same = simulate(seed).digest == digest
                print(f"seed {seed} again: {'the same' if same else 'ANOTHER'} history")
                break
    print(f"{run} seeds in {time.monotonic() - started:.0f} s, {failed} with violations")
    if failed:
        print("make simulate SEED=n prints the history of a seed")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
