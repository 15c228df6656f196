"""The commands of the transparency log: `graph-agent log fork`, `rotate` and `consistency`, and `witness add`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graph_agent.bootstrap.record_tree import add_witness, rotate_key
from graph_agent.cli.database import open_tree
from graph_agent.cli.options import AsJson, Reason, option
from graph_agent.cli.running import checking, read_text, wrong_usage
from graph_agent.cli.show import json_line
from graph_agent.clock import SystemClock
from graph_agent.reply.text import counted
from graph_agent.tlog.note import NoteError
from graph_agent.tlog.witness import WitnessClient

_MAX_NOTE = 64 * 1024


def fork(reason: Reason) -> None:
    """Continue a log that was put back on purpose, for example from a backup, under a new origin.

    The log states what was lost. Give the new key to the witnesses. Stop all other processes first.
    """
    with open_tree() as (_, _stores, tree, run):
        lost = run(tree.fork(reason))
        origin = run(tree.origin())
    typer.echo(f"the log continues as {origin}; lost was {lost.origin} with {counted(lost.size, 'leaf', 'leaves')}")
    typer.echo(f"key: {tree.keys.verifiers(origin)[0]}")


def rotate() -> None:
    """Add a new key for the log, which signs beside the current one, and state it in the log.

    Restart the servers, which seal nothing until then, and give the new key to the witnesses. Then remove the last line of the
    key file, which is the old key.
    """
    with open_tree() as (settings, stores, _tree, run):
        new = run(rotate_key(settings, stores.database, SystemClock()))
    typer.echo(f"key: {new}")


def consistency(
    old: Annotated[Path, option("--from", "FILE", "Compare with this checkpoint, as GET /checkpoint returned it.")],
    as_json: AsJson = False,
) -> None:
    """Prove that the log is a continuation of a checkpoint that you kept.

    Exits with 1 if it is not, and with 3 if the check could not finish.
    """
    note = read_text(old, _MAX_NOTE)
    with checking(), open_tree() as (_, _stores, tree, run):
        try:
            checkpoint = tree.keys.open(note)
        except NoteError as exc:
            wrong_usage(f"the file {old} is not a checkpoint of this log: {exc}")
        head, proof = run(tree.prove_growth(checkpoint))
    text = f"the log continues the {counted(checkpoint.size, 'leaf', 'leaves')} of {old}"
    typer.echo(json_line({"old": note, "proof": proof, "checkpoint": head}) if as_json else text)


def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Submit checkpoints to the witness at this URL.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Accept cosignatures with this key.")],
) -> None:
    """Add a witness, and print the command that starts it, with the key of the log."""
    with open_tree() as (settings, _stores, tree, run):
        try:
            witness = WitnessClient.parse(f"{url} {key}")
        except NoteError as exc:
            wrong_usage(str(exc))
        add_witness(settings, witness)
        origin = run(tree.origin())
    key_of_log = tree.keys.verifiers(origin)[0]
    typer.echo(f"{witness.key.name} is a witness of this log; start it: graph-agent witness --log {key_of_log}")
