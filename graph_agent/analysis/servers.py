"""The comparison of two files of MCP servers: who is trusted, and where calls go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graph_agent.analysis.loosened_fields import SERVER, compare_fields
from graph_agent.analysis.questions import AnalysisResult
from graph_agent.tools.server_file import ServerConfig


def compare_servers(old: Sequence[ServerConfig], new: Sequence[ServerConfig]) -> Iterator[AnalysisResult]:
    """Yield what changed about the servers of both files. A new server matters by its tools, which `compare` shows."""
    before = {server.name: server for server in old}
    for server in new:
        name, known = f"server '{server.name}'", before.get(server.name)
        if known is None:
            continue
        yield from compare_fields(SERVER, name, known, server)
