"""`graph-agent diagram`: the state machine, drawn."""

from __future__ import annotations

from typing import Annotated

import typer


def diagram(
    sequence: Annotated[bool, typer.Option("--sequence", help="One tool turn as a sequence instead.")] = False,
) -> None:
    """Print the state machine as a Mermaid diagram, made from the table that the graph is compiled from."""
    from graph_agent.graph.diagram import state_machine, tool_turn

    typer.echo(tool_turn() if sequence else state_machine(), nl=False)
