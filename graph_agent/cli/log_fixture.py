"""`graph-agent log fixture`: a logged decision as a test case for `validate`."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.cli.filters import open_queries
from graph_agent.cli.running import option
from graph_agent.validation.fixtures import dump_fixtures, fixture_from_log


def print_fixture(
    decision_id: Annotated[str, typer.Argument(metavar="DECISION_ID", help="Use this decision; `log list` prints the ids.")],
    name: Annotated[
        str | None,
        option("--test-id", "NAME", "Name the test case (default: the decision id)."),
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Leave out the earlier turns of the conversation.")] = False,
) -> None:
    """Print a decision as a YAML test case for `validate`.

    The case replays the earlier turns of the conversation and expects the same decision.
    """
    with open_queries() as (log, run):
        fixture = run(fixture_from_log(log, decision_id, test_id=name, alone=alone))
    typer.echo(dump_fixtures([fixture]), nl=False)
