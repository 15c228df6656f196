"""`graph-agent policy trial`: what rules in the shadow would have changed, by replaying the record."""

from __future__ import annotations

import json
from typing import Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.policies import load_accepted_policy
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import AsJson, filter_by, with_files
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_error
from graph_agent.cli.show import json_line, print_text, shorten
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.sources import read_log
from graph_agent.reply.text import counted
from graph_agent.settings import Settings
from graph_agent.suggestions.trial import RecordedShadows, Trial

_SHOWN = 1000
"""The characters of a line about a rule."""


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
