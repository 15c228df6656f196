"""The comparison of two files of MCP servers: who is trusted, and where calls go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graph_agent.analysis.questions import AnalysisResult, Change
from graph_agent.tools.server_file import ServerConfig


def compare_servers(old: Sequence[ServerConfig], new: Sequence[ServerConfig]) -> Iterator[AnalysisResult]:
    """Yield what changed about the servers of both files. A new server matters by its tools, which `compare` shows."""
    before = {server.name: server for server in old}
    for server in new:
        name, known = f"server '{server.name}'", before.get(server.name)
        if known is None:
            continue
        if server.trusted and not known.trusted:
            yield AnalysisResult(name, Change.TRUSTED)
        if (server.server, server.credentials) != (known.server, known.credentials):
            yield AnalysisResult(name, Change.NOT_COMPARED, why="it is another program, address or identity")
