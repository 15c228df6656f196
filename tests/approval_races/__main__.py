"""Race approval requests on an empty database that has all tables, and print their ends and what was violated.

python -m tests.approval_races postgresql://user@host/name --requests 3000
"""

from __future__ import annotations

import argparse
import asyncio

from tests.approval_races.planted import MISTAKES, WITHOUT_KEY
from tests.simulation.planted import plant


def main() -> int:
    parser = argparse.ArgumentParser(description="Race the transitions of approval requests on a database.")
    parser.add_argument("url", help="the URL of the database")
    parser.add_argument("--requests", type=int, default=3_000, help="the number of requests")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the order and of the times")
    parser.add_argument("--mistake", choices=MISTAKES, help="plant a mistake first")
    given = parser.parse_args()
    if given.mistake is not None:
        plant(MISTAKES[given.mistake])
    # Imported here, because a mistake is planted before the package is imported.
    from tests.approval_races.race import drop_key, race

    if given.mistake == WITHOUT_KEY:
        drop_key(given.url)
    outcome = asyncio.run(race(given.url, given.requests, given.seed))
    print(f"ends: {dict(outcome.states)}; violations: {dict(outcome.violations)}")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    raise SystemExit(main())
