"""The commands of an administrator: `graph-agent db`, `log verify` and `prune`, and those of the transparency log: `log fork`,
`rotate`, `consistency` and `witness add`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from graph_agent.audit.retention import count_removable, prune
from graph_agent.bootstrap.copying import copy_database
from graph_agent.bootstrap.maintenance import verify_installation
from graph_agent.bootstrap.record_tree import add_witness, record_tree, rotate_key
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.cli.confirming import DryRun, Yes, confirm_removal, require_terminal
from graph_agent.cli.executors import Division, divided, progress_bar
from graph_agent.cli.options import AsJson, Reason, option
from graph_agent.cli.running import DONE, FAILED, Run, open_in_loop, read_text, wrong_usage
from graph_agent.cli.show import json_line, print_result, print_text
from graph_agent.clock import SystemClock
from graph_agent.record.tamper.tree_check import CheckedPart, CheckedTree, TreeDivision, TreeJob, check_stored_part, split_tree
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.record.tree.service import RecordTree
from graph_agent.reply.text import counted
from graph_agent.settings import MAX_RETENTION_DAYS, Settings, read_settings
from graph_agent.tlog.note import NoteError
from graph_agent.tlog.witness import WitnessClient

_MAX_NOTE = 64 * 1024


@divided
def verify(
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the witnesses.")] = False,
    *,
    division: Division,
    as_json: AsJson = False,
) -> None:
    """Verify the log: its rows, its signed tree, and that it continues what its witnesses have seen.

    It also finds turns, and changes of tasks, whose decision is missing.
    Exits with 1 if anything differs.
    """
    with _opened() as (settings, stores, tree, run), progress_bar("verifying") as advance:
        checked = None
        if division:
            divided = run(split_tree(stores.log_reads))
            checked = _check_divided(divided, TreeJob(settings.log_reads), division, advance)
        verified = verify_installation(
            stores.database,
            tree,
            reads=stores.log_reads,
            shipped_tools=settings.mcp is None,
            offline=offline,
            on_progress=advance,
            checked=checked,
        )
        report = run(verified)
    print_result({"intact": report.intact, **report.to_json()}, lambda: print_report(report), as_json=as_json)
    raise typer.Exit(DONE if report.intact else FAILED)


def prune_decisions(
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, max=MAX_RETENTION_DAYS, help="Keep this many days.", show_default="GRAPH_AGENT_RETENTION_DAYS, 30"
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove closed decisions that are older than the retention.

    They are removed in small batches. Baselines and reports are kept. If --days is shorter than the retention, you are asked
    first.
    """
    now, settings = datetime.now(UTC), read_settings()
    keep = days or settings.retention_days
    asks = keep < settings.retention_days and not dry_run
    if asks:
        require_terminal(yes=yes)
    before = now - timedelta(days=keep)
    with _opened(settings) as (_, stores, tree, run), progress_bar("pruning") as advance:
        # What is not in the tree is not removed.
        run(tree.seal())
        if asks or dry_run:
            found = run(count_removable(stores.database, before))
            text = f"{counted(found, 'decision')} from before {before:%Y-%m-%d %H:%M} UTC"
            if dry_run:
                typer.echo(
                    json_line({"before": before.isoformat(), "decisions": found}) if as_json else f"{text} would be removed"
                )
                return
            confirm_removal(f"Remove {text}, which the retention of {settings.retention_days} days keeps?", yes=yes)
        pruned = prune(stores.database, before, now=now, key=tree.key, on_batch=lambda gone: advance(gone, None))
        report = run(pruned)
    text = f"{report.decisions} decisions and {report.texts} texts from before {report.before:%Y-%m-%d %H:%M} UTC removed"
    typer.echo(json_line(report.to_json()) if as_json else text)


def fork(reason: Reason) -> None:
    """Continue a log that was put back on purpose, for example from a backup, under a new origin.

    The log states what was lost. Give the new key to the witnesses. Stop all other processes first.
    """
    with _opened() as (_, _stores, tree, run):
        lost = run(tree.fork(reason))
        origin = run(tree.origin())
    typer.echo(f"the log continues as {origin}; lost was {lost.origin} with {counted(lost.size, 'leaf', 'leaves')}")
    typer.echo(f"key: {tree.keys.verifiers(origin)[0]}")


def rotate() -> None:
    """Add a new key for the log, which signs beside the current one, and state it in the log.

    Restart the servers, which seal nothing until then, and give the new key to the witnesses. Then remove the last line of the
    key file, which is the old key.
    """
    with _opened() as (settings, stores, _tree, run):
        new = run(rotate_key(settings, stores.database, SystemClock()))
    typer.echo(f"key: {new}")


def consistency(
    old: Annotated[Path, option("--from", "FILE", "Compare with this checkpoint, as GET /checkpoint returned it.")],
    as_json: AsJson = False,
) -> None:
    """Prove that the log is a continuation of a checkpoint that you kept.

    Exits with 1 if it is not.
    """
    note = read_text(old, _MAX_NOTE)
    with _opened() as (_, _stores, tree, run):
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
    """Add a witness, and print the key of the log that the witness needs."""
    with _opened() as (settings, _stores, tree, run):
        try:
            witness = WitnessClient.parse(f"{url} {key}")
        except NoteError as exc:
            wrong_usage(str(exc))
        add_witness(settings, witness)
        origin = run(tree.origin())
    typer.echo(f"{witness.key.name} is a witness of this log; start it with --log {tree.keys.verifiers(origin)[0]}")


def print_report(report: VerifyReport) -> None:
    """Print the violations and one line with the result."""
    for violation in report.violations:
        print_text((f"{violation.kind:<11}", "bold red"), violation.text)
    if report.count > len(report.violations):
        print_text(f"... and {report.count - len(report.violations)} more")
    more = {
        f"tree size {report.size:,}": report.size,
        f"{report.removed:,} removed on purpose": report.removed,
        f"{report.unstated:,} of them without a statement yet": report.unstated,
        f"{counted(report.waiting, 'row')} not in the tree yet": report.waiting,
        f"{counted(report.open, 'turn')} still open": report.open,
        f"{report.references:,} turns and operations compared": report.references,
        f"forked {counted(len(report.forks), 'time')}": report.forks,
    }
    seen = ", ".join([counted(report.records, "record"), *(text for text, count in more.items() if count)])
    verdict = ("intact", "bold green") if report.intact else (counted(report.count, "violation"), "bold red")
    print_text(verdict, f": {seen}; {_anchored(report)}")


def _anchored(report: VerifyReport) -> str:
    witnessed = next((anchor for anchor in report.anchors if anchor.at is not None), None)
    if witnessed is None:
        return "UNANCHORED: an administrator could have removed the end or rolled the database back"
    return f"witnessed until {witnessed.at:%Y-%m-%d %H:%M:%S} UTC by {witnessed.name} (tree size {witnessed.size:,})"


def _check_divided(
    divided: TreeDivision, job: TreeJob, division: Division, advance: Callable[[int, int | None], None]
) -> CheckedTree:
    checked: list[CheckedPart] = []
    identity = ["verify", "" if divided.head is None else divided.head.note]
    with division.run(check_stored_part, job, divided.parts, identity) as finished:
        for part, (result,) in zip(divided.parts, finished, strict=True):
            checked.append(CheckedPart.model_validate(result))
            advance(part.end, divided.parts[-1].end)
    return CheckedTree(divided.head, checked)


@contextmanager
def _opened(settings: Settings | None = None) -> Iterator[tuple[Settings, Stores, RecordTree, Run]]:
    settings = settings or read_settings()
    with open_in_loop(open_stores(settings)) as (stores, run):
        yield settings, stores, record_tree(settings, stores.database, SystemClock()), run


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Copy the database at this URL, as in DATABASE_URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Write to the database at this URL, which must be empty.")],
    as_json: AsJson = False,
) -> None:
    """Copy everything in a database (tasks, conversations, the record) to an empty one.

    It copies one snapshot, completely or not at all, and verifies the record. Exits with 1 if the copy is not intact.
    """
    counts, report = asyncio.run(copy_database(read_settings(), source, target))
    if as_json:
        typer.echo(json_line({"rows": counts, "log": None if report is None else report.to_json()}))
    else:
        for table, rows in counts.items():
            typer.echo(f"{table:<24}{rows:>10,} rows")
        if report is not None:
            print_report(report)
    raise typer.Exit(DONE if report is None or report.intact else FAILED)


def migrate() -> None:
    """Create the tables of the database, or update them to this version.

    Every command does so when it starts. Run it alone before the replicas of a new version start.
    """
    with open_in_loop(open_stores(read_settings())):
        typer.echo("The database has the tables of this version.")
