"""`graph-agent policy suggest` and `policy trial`: rules from the record, and what rules in the shadow would have changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.policies import load_accepted_policy
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import AsJson, filter_by, with_files
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_error, print_stderr
from graph_agent.cli.show import json_line, print_text, shorten
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.sources import read_log
from graph_agent.reply.text import counted, visible
from graph_agent.settings import Settings
from graph_agent.suggestions.rules import facts_of
from graph_agent.suggestions.suggest import Suggested, records_in, suggest
from graph_agent.suggestions.trial import RecordedShadows, Trial

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


@filter_by("since", "until", "user_id")
@with_files()
def try_policy(*, filters: DecisionFilter, settings: Settings, as_json: AsJson = False) -> None:
    """Print what each rule in the shadow would have changed: by tool, by user, with examples.

    Every decision is replayed, and the verdicts must be those of the record. One that was recorded with another file is
    replayed with the present one, so that a rule that has changed under its name is found. Exits with 1 if any verdict differs.
    """
    with open_in_loop(open_stores(settings)) as (stores, run):
        conditions = run(load_accepted_policy(settings, stores.database)).conditions
        rules = [] if conditions is None else [one.name for one in conditions.described() if one.shadow]
        trial = Trial(rules)
        run(_replay(stores.log_reads, filters, trial, None if conditions is None else conditions.file))
    if as_json:
        found = {name: one.to_json() for name, one in trial.rules.items()}
        differing = [{"decision_id": name, "why": why} for name, why in trial.differing]
        typer.echo(json_line({"decisions": trial.decisions, "rules": found, "differing": differing}))
    else:
        print_text(f"{counted(trial.decisions, 'decision')} with rules in the shadow")
        for name, one in trial.rules.items():
            print_text(shorten(f"{name}: {one.sentence()}", _SHOWN))
            for line in one.lines() if one.decisions else ():
                print_text(f"  {shorten(line, _SHOWN)}")
    for name, why in trial.differing:
        print_error(f"{name}: a replay finds other verdicts: {why}")
    raise typer.Exit(FAILED if trial.differing else DONE)


async def _replay(log: Any, filters: DecisionFilter, trial: Trial, file: ConditionsFile | None) -> None:
    replayer, rules = Replayer(), list(trial.rules)
    shadows = RecordedShadows()
    async for loaded in read_log(log, filters):
        record = loaded.record
        if record is None or not record.states or record.header.conditions is None:
            continue
        had = shadows.of(record.header, loaded.texts)
        if had == frozenset():
            continue
        recorded = _recorded_rules(loaded.texts.get(record.header.conditions, ""))
        if file is None or recorded in (None, file.text):
            report, compared = await loaded.replay(replayer), None
        else:
            report = await loaded.replay(replayer, WhatIf(conditions=file))
            # A rule that is new has no verdict in the record.
            compared = [rule for rule in rules if rule in (had or ())]
        # The replay says why a file cannot be read.
        trial.add(record, report.replayed, report.departure, had or (), compared)


def _recorded_rules(text: str) -> str | None:
    """Return the conditions file that a record names, or None if it cannot be read: the replay says why."""
    try:
        return ConditionsFile.recorded(json.loads(text)).text
    except (ValueError, TypeError, LookupError):
        return None
