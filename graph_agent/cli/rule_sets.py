"""`graph-agent rules`: which rules are in force, since when, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graph_agent.bootstrap.stored_rules import load_rules, write_rules
from graph_agent.cli.database import open_log
from graph_agent.cli.options import AsJson, option
from graph_agent.cli.show import json_line
from graph_agent.models.canonical import digest
from graph_agent.models.rule_set import Activation, ActivationKind
from graph_agent.record.rule_sets import list_activations, list_rule_sets
from graph_agent.record.statements import read
from graph_agent.reply.text import visible

_SHOWN = 12
"""The characters of a digest that are printed."""


def list_rules(
    last: Annotated[int, typer.Option("--last", min=1, help="List only the last N.")] = 20, as_json: AsJson = False
) -> None:
    """List since when rules were in force, newest first, with what had changed."""
    with open_log() as (database, run):
        # One more, with which the last one is compared.
        found = run(read(database, lambda connection: list_activations(connection, last + 1)))
        sets = run(read(database, lambda connection: list_rule_sets(connection, [one.digest for one in found])))
    if not found and not as_json:
        typer.echo("No rules have been in force yet: the first decision brings them.")
    for place, one in enumerate(found[:last]):
        before = sets.get(found[place + 1].digest) if place + 1 < len(found) else None
        now = sets.get(one.digest)
        changed = [] if before is None or now is None else now.differences(before)
        if as_json:
            typer.echo(json_line({**_json(one), "changed": changed, "in_force": place == 0}))
            continue
        text = _line(one) + (f"  {', '.join(changed)}" if changed else "") + ("  in force" if place == 0 else "")
        typer.echo(visible(text))


def show_rules(
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="Show these rules.", show_default="those in force")
    ] = None,
    to: Annotated[Path | None, option("--to", "FOLDER", "Write the files of the rules to this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the parts of the rules in force, or of earlier ones, with the digest of each."""
    with open_log() as (database, run):
        activation, rule_set = run(load_rules(database, number))
    if as_json:
        typer.echo(json_line({**_json(activation), "parts": rule_set.parts}))
    else:
        typer.echo(visible(_line(activation)))
        for name, text in sorted(rule_set.parts.items()):
            typer.echo(visible(f"  {name:<20}{digest(text)[:_SHOWN]}  {len(text):,} characters"))
    if to is not None:
        typer.echo(f"{to}: {', '.join(write_rules(rule_set, to))}", err=True)


def _line(one: Activation) -> str:
    who = one.host if one.kind is ActivationKind.FOLLOWED else f"{one.kind} by {one.by or one.host} ({one.reason})"
    return f"{one.number}  {one.digest[:_SHOWN]}  since {one.at:%Y-%m-%d %H:%M:%S} UTC  {who}"


def _json(one: Activation) -> dict[str, object]:
    named = {"host": one.host, "kind": one.kind, "by": one.by, "reason": one.reason}
    return {"number": one.number, "digest": one.digest, "at": one.at.isoformat(), **named}
