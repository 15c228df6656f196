"""`graph-agent rules follow`: each process uses the rules of its own files again."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import OperatorReason
from graph_agent.cli.running import local_account, open_in_loop, wrong_usage
from graph_agent.models.rule_set import ActivationKind
from graph_agent.record.rule_sets import activate_rules, find_activation
from graph_agent.record.rules_head import find_head
from graph_agent.record.statements import read
from graph_agent.record.tree.leaves import Sealer
from graph_agent.settings import read_settings


def follow(reason: OperatorReason) -> None:
    """Let each process use the rules of its own files again."""
    settings = read_settings()
    sealer = Sealer(record_keys(settings))
    with open_in_loop(open_stores(settings)) as (stores, run):
        head = run(read(stores.database, lambda connection: find_head(connection, sealer)))
        now = run(read(stores.database, find_activation))
        if now is None or head is None or not head.binds:
            wrong_usage("no rules are activated: each process uses those of its files")
        number, kind = now[0].number, ActivationKind.RELEASED
        released = run(
            activate_rules(stores.database, now[1], sealer, expected=number, kind=kind, by=local_account(), reason=reason)
        )
    typer.echo(f"released at {released.at:%H:%M:%S} UTC: each process uses the rules of its own files from its next turn on")
