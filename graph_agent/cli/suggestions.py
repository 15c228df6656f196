"""`graph-agent policy suggest`: rules from the record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.policies import load_accepted_policy
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import filter_by, with_files
from graph_agent.cli.running import open_in_loop, print_stderr
from graph_agent.cli.show import shorten
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.reply.text import visible
from graph_agent.settings import Settings
from graph_agent.suggestions.rules import facts_of
from graph_agent.suggestions.suggest import Suggested, records_in, suggest

_BORDER_SECONDS = 2
"""The time of the solver for the border of one rule."""
_SHOWN = 1000
"""The characters of a line about a rule."""


@filter_by("since", "until", "user_id")
@with_files("mcp", "constitution")
def suggest_policy(
    tool: Annotated[list[str] | None, typer.Option("--tool", metavar="NAME", help="Suggest rules for this tool.")] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Mark each rule with @shadow: it decides nothing.")] = False,
    more: Annotated[bool, typer.Option("--more", help="Suggest limits for one message and words of the user too.")] = False,
    users: Annotated[int, typer.Option("--users", min=2, help="Use only values of at least this many users.")] = 5,
    *,
    filters: DecisionFilter,
    settings: Settings,
) -> None:
    """Print a conditions file that asks for a yes outside of what was ordinary.

    Each rule has its evidence as a comment. What the rules would have asked about or refused in the period is printed on the
    standard error: each recorded call is judged by them again. Nothing is changed.
    """
    with open_in_loop(open_stores(settings)) as (stores, run):
        policy = run(load_accepted_policy(settings.model_copy(update={"conditions": None}), stores.database))
        records = records_in(stores.log_reads, filters)
        file = ConditionsFile("", "the suggestion", settings.role_names, settings.time_zone)
        found: Suggested = run(suggest(records, policy, file, enough=users, tools=tool or (), shadow=shadow, more=more))
    typer.echo(visible(found.text), nl=False)
    for line in (*found.lines(), *_borders(found, policy, file)):
        print_stderr(visible(shorten(line, _SHOWN)))


def _borders(found: Suggested, policy: CompiledPolicy, file: ConditionsFile) -> Iterator[str]:
    """Yield for each rule a call at its border that still runs."""
    if not found.borders:
        return
    if find_spec("z3") is None:
        yield "What the rules still permit is not shown: install the extra 'prove' (pip install 'graph-agent[prove]')."
        return
    # Imported here, because the solver belongs to an extra.
    from graph_agent.analysis.borders import border_example

    policy = policy.with_facts(facts_of(found.rules))
    for border in found.borders:
        of_rule, stricter = (policy.with_conditions(replace(file, text=text)) for text in (border.text, border.stricter))
        example = border_example(of_rule, stricter, border.tool, _BORDER_SECONDS)
        yield f"{border.rule}: still runs: {example or 'not found'}"
