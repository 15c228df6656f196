"""`graph-agent log verify` and `log heads`: detect changes of the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from graph_agent.bootstrap.secret import chain_keys
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.verification import verify_installation
from graph_agent.cli.executors import CheckpointDirectory, Dask, Division, Workers
from graph_agent.cli.filters import open_log
from graph_agent.cli.progress import progress_bar
from graph_agent.cli.running import DONE, FAILED, AsJson, open_in_loop, option, print_stderr, read_text, wrong_usage
from graph_agent.cli.show import json_line, stdout_console
from graph_agent.clock import SystemClock
from graph_agent.record.chain import Sealer
from graph_agent.record.tamper.chain_parts import ChainJob, ChainPart, CheckedPart, check_stored_part, split_chains
from graph_agent.record.tamper.heads import MAX_CHARACTERS, SignedHeads, sign_heads
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.reply.counting import counted
from graph_agent.settings import read_settings


def verify(
    heads: Annotated[
        Path | None,
        option("--heads", "FILE", "Compare with the heads that `log heads` wrote earlier."),
    ] = None,
    workers: Workers = 1,
    dask: Dask = None,
    checkpoint: CheckpointDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Verify the log: compare every row with its record and every record with its chain.

    It also finds turns, and changes of tasks, whose decision is missing.
    Exits with 1 if anything differs.
    """
    given = None if heads is None else read_text(heads, MAX_CHARACTERS + 1)
    settings = read_settings()
    key, division = chain_keys(settings), Division(workers, dask, checkpoint)
    with open_in_loop(open_stores(settings)) as (stores, run), progress_bar("verifying") as advance:
        signed = None if given is None else SignedHeads.from_text(given)
        checked = None
        if division:
            parts = run(split_chains(stores.log_reads))
            checked = _check_divided(parts, ChainJob(settings.log_reads, key), division, advance)
        verified = verify_installation(
            stores.database, reads=stores.log_reads, key=key, heads=signed, on_progress=advance, checked=checked
        )
        report = run(verified)
    if as_json:
        typer.echo(json_line({"intact": report.intact, **report.to_json()}))
    else:
        print_report(report, compared=heads is not None)
    raise typer.Exit(DONE if report.intact else FAILED)


def _check_divided(
    parts: list[ChainPart], job: ChainJob, division: Division, advance: Callable[[int, int | None], None]
) -> list[CheckedPart]:
    checked: list[CheckedPart] = []
    identity = ["verify", [one.key_id for one in Sealer(job.key).all]]
    with division.run(check_stored_part, job, parts, identity) as finished:
        for (result,) in finished:
            checked.append(CheckedPart.model_validate(result))
            advance(sum(part.links for part in parts[: len(checked)]), sum(part.links for part in parts))
    return checked


def heads(
    to: Annotated[Path | None, option("--out", "FILE", "Write to this file (default: stdout).")] = None,
) -> None:
    """Print the signed head of every chain of the log.

    Store the heads elsewhere: `log verify --heads FILE` then detects records that were removed from the end of a chain.
    """
    # The log itself, not a replica, which may lack the newest records.
    with open_log(writes=True) as (database, run):
        signed = run(sign_heads(database, chain_keys(read_settings()), SystemClock().now()))
    if to is None:
        typer.echo(json_line(signed.to_json()))
        return
    try:
        to.write_text(signed.to_text(), encoding="utf-8")
    except OSError:
        wrong_usage(f"the file {to} cannot be written")
    print_stderr(f"{counted(len(signed.heads), 'head')} written to {to}")


def print_report(report: VerifyReport, *, compared: bool) -> None:
    """Print the violations and one line with the result; `compared` is false if there were no signed heads to compare with."""
    console = stdout_console()
    for violation in report.violations:
        console.print(Text.assemble((f"{violation.kind:<11}", "bold red"), violation.text))
    if report.count > len(report.violations):
        console.print(f"... and {report.count - len(report.violations)} more")
    seen = f"{counted(report.records, 'record')} in {counted(report.chains, 'chain')}"
    more = {
        f"{report.pruned:,} pruned": report.pruned,
        f"{counted(report.open, 'turn')} still open": report.open,
        f"{report.references:,} turns and operations compared": report.references,
    }
    seen = ", ".join([seen, *(text for text, count in more.items() if count)])
    if report.intact:
        console.print(Text.assemble(("intact", "bold green"), f": {seen}"))
        if not compared:
            print_stderr(
                "Records removed from the end of a chain are detected only with heads that were stored elsewhere: --heads FILE."
            )
    else:
        console.print(Text.assemble((counted(report.count, "violation"), "bold red"), f": {seen}"))
