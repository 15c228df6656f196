"""`python -m benchmarks`: what a turn costs, beside peers, in one run.

With `--goals` it runs only what has goals for a ratio, and exits with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import adapters, goals, graph, growth, http, mcp_calls, memory, sources, startup, suggestions, turn

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("--goals", action="store_true", help="run only what the nightly run checks, and fail for a missed goal")
checks = parser.parse_args().goals
checked = (graph, turn, sources, suggestions)
for part in checked if checks else (*checked, mcp_calls, http, growth, memory, adapters, startup):
    part.main()
    print()
goals.print_missed()
sys.exit(1 if checks and goals.missed else 0)
