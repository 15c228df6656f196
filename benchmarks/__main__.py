"""`python -m benchmarks`: what a turn costs, beside peers, in one run."""

from __future__ import annotations

from benchmarks import adapters, goals, graph, startup, turn

for part in (graph, turn, adapters, startup):
    part.main()
    print()
goals.print_missed()
