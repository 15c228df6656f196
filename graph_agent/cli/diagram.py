"""`graph-agent diagram`: draw the state machine."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.graph.diagram import gate_chart, state_machine, tool_turn


def diagram(
    sequence: Annotated[bool, typer.Option("--sequence", help="Print one tool turn as a sequence diagram instead.")] = False,
    gates: Annotated[bool, typer.Option("--gates", help="Print the gates between a call and its effect instead.")] = False,
) -> None:
    """Print the state machine as a Mermaid diagram.

    It is drawn from the table that the graph is compiled from.
    """
    typer.echo(gate_chart() if gates else tool_turn() if sequence else state_machine(), nl=False)
