"""The commands of the transparency log: `graph-agent log fork`, `rotate` and `consistency`, and `witness add`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from graph_agent.bootstrap.record_tree import add_witness, rotate_key
from graph_agent.bootstrap.witness_home import remember_log, witness_key
from graph_agent.cli.opened_tree import open_tree
from graph_agent.cli.options import AsJson, Reason, not_blank, option
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
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Accept cosignatures with this key.")] = None,
    folder: Annotated[Path | None, option("--new", "FOLDER", "Make the witness too: its home with its key.")] = None,
    name: Annotated[str | None, option("--name", "NAME", "Name the new key so.", "a random name", not_blank)] = None,
) -> None:
    """Add a witness, and print the command that starts it.

    A witness of another organization has a KEY, which `graph-agent witness` prints. With --new the witness is made in FOLDER,
    and knows the key of the log: take the folder to the machine of the witness, and keep no copy of it.
    """
    if (key is None) == (folder is None) or (name is not None and folder is None):
        wrong_usage("give the KEY of a witness, or --new FOLDER, with --name if you like, to make one")
    with open_tree() as (settings, _stores, tree, run):
        try:
            known = key if folder is None else witness_key(folder, name).verifier
            witness = WitnessClient.parse(f"{url} {known}")
        except NoteError as exc:
            wrong_usage(str(exc))
        origin = run(tree.origin())
        key_of_log = tree.keys.verifiers(origin)[0]
        if folder is not None:
            remember_log(folder, key_of_log)
        add_witness(settings, witness)
    start = f"graph-agent witness --log {key_of_log}"
    if folder is not None:
        start = f"GRAPH_AGENT_HOME={quote(str(folder))} graph-agent witness"
    typer.echo(f"{witness.key.name} is a witness of this log; start it: {start}")
