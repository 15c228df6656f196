"""`python -m benchmarks`: what a turn costs, beside peers, in one run."""

from __future__ import annotations

from benchmarks import adapters, goals, graph, growth, http, mcp_calls, memory, startup, turn

for part in (graph, turn, mcp_calls, http, growth, memory, adapters, startup):
    part.main()
    print()
goals.print_missed()
