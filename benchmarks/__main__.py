"""`python -m benchmarks`: what a turn costs, beside peers, in one run."""

from __future__ import annotations

from benchmarks import adapters, goals, graph, growth, http, memory, startup, turn

for part in (graph, turn, http, growth, memory, adapters, startup):
    part.main()
    print()
goals.print_missed()
