"""Run random processes on an empty database that has all tables; print what they did, and what was violated.

python -m tests.question.processes sqlite:///questions.db --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio

from tests.question.processes.planted import MISTAKES
from tests.simulation.planted import plant


def main() -> int:
    parser = argparse.ArgumentParser(description="Run processes that ask and answer, are killed, and have clocks that are set.")
    parser.add_argument("url", help="the URL of the database")
    parser.add_argument("--seconds", type=float, default=30, help="the time after which no process is started")
    parser.add_argument("--seed", type=int, default=1, help="the seed of what the processes do and of the kills")
    parser.add_argument("--steady", action="store_true", help="do not set the clock of the database")
    parser.add_argument("--mistake", choices=MISTAKES, help="plant a mistake first")
    given = parser.parse_args()
    if given.mistake is not None:
        plant(MISTAKES[given.mistake])
    # Imported here, because a mistake is planted before the package is imported.
    from tests.question.processes.run import check_due_work, run_processes

    report = run_processes(given.url, given.seconds, given.seed, steps=not given.steady)
    asyncio.run(check_due_work(given.url, report))
    print(f"{report.kills} kills, {report.steps} steps, {report.effects} effects; ends: {dict(sorted(report.ends.items()))}")
    for name, number in report.violations.items():
        print(f"{name}: {number}, such as {report.examples[name]}")
    return int(bool(report.violations))


if __name__ == "__main__":
    raise SystemExit(main())
