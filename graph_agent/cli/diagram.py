"""`graph-agent diagram`: draw the state machine."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.graph.diagram import state_machine, tool_turn


def diagram(
    sequence: Annotated[bool, typer.Option("--sequence", help="Print one tool turn as a sequence diagram instead.")] = False,
) -> None:
    """Print the state machine as a Mermaid diagram.

    It is drawn from the table that the graph is compiled from.
    """
    typer.echo(tool_turn() if sequence else state_machine(), nl=False)
