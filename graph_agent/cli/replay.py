"""`graph-agent replay`: run decisions again from their records and show the differences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.time_slices import TimeSlice, split_log
from graph_agent.bootstrap.adapters import open_adapter
from graph_agent.cli.chat import print_step
from graph_agent.cli.database import open_log
from graph_agent.cli.executors import Division, divided, progress_bar
from graph_agent.cli.last import decision_id_of
from graph_agent.cli.options import AsJson, Model, filter_by, option
from graph_agent.cli.proof import other_rules
from graph_agent.cli.running import DONE, FAILED, Run, print_stderr, wrong_usage
from graph_agent.cli.show import json_line, print_answer, print_text, shorten
from graph_agent.db import Database
from graph_agent.policy.constitution import Constitution
from graph_agent.replays.pool import ReplayJob, replay_slice
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.report import ReplayReport
from graph_agent.replays.sources import LoadedRecord, load_from_log, read_file, read_log
from graph_agent.reply.text import visible
from graph_agent.settings import read_settings

_VALUE = 300
"""The number of characters of a value that are printed; --json prints all of them."""


@filter_by()
@divided
def replay(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DECISION_ID|FILE",
            help="Replay this decision (or `last`), or those of an exported file.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Replay every closed decision of the log.")] = False,
    constitution: Annotated[
        Path | None,
        option("--constitution", "FILE", "Decide by this constitution, or by that of `@N`, instead of the recorded one."),
    ] = None,
    conditions: Annotated[
        Path | None,
        option(
            "--conditions",
            "FILE",
            "Decide by these conditions, or by those of `@N`, instead of the recorded ones.",
        ),
    ] = None,
    without_mandates: Annotated[
        bool, typer.Option("--without-mandates", help="Ask about what a plan has covered, and print what that changes.")
    ] = False,
    steps: Annotated[bool, typer.Option("--step", help="Print each state and its changes.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Ask the current model; use the recorded tool results.")] = False,
    model: Model = None,
    *,
    division: Division,
    mcp: Annotated[  # noqa: ARG001 (accepted, so that all commands take the same options)
        Path | None, option("--mcp", "FILE", "Ignored: the record has the tools.")
    ] = None,
    filters: DecisionFilter,
    as_json: AsJson = False,
) -> None:
    """Run decisions again from their records, offline, and print the differences.

    There is no effect, and no network access unless --live asks the model again. Exits with 1 if anything differs.
    """
    if (target is None) is not everything:
        wrong_usage("name a decision or an exported file, or ask for --all")
    if live and everything:
        wrong_usage("--live asks the model again for every decision: name one decision, or a file")
    if division and (not everything or steps):
        wrong_usage("--workers, --dask and --checkpoint are for --all, without --step")
    what_if = replace(other_rules(constitution, conditions), mandates=not without_mandates)
    with _open_source(target) as (run, database):
        printer = _Printer(steps, as_json, alone=target is not None and database is not None)
        if division:
            job = ReplayJob(read_settings().log_reads, filters, what_if)
            _replay_slices(run(split_log(database, filters)), job, printer, division)
        else:
            expected = run(LogQueryService(database).query_decisions(filters, limit=1)).total if target is None else None
            if target is not None and database is not None:
                target = decision_id_of(target, database, run)
            sources = read_log(database, filters) if target is None else _read_target(target, database)
            run(_replay_all(sources, expected, printer, what_if, live=live, model=model))
    raise typer.Exit(DONE if printer.print_verdict() else FAILED)


@dataclass(slots=True)
class _Printer:
    """Prints the report of each replay, and counts them."""

    steps: bool
    as_json: bool
    alone: bool
    """True if the user named one decision. Of several decisions, only those that differ are printed."""
    total: int = 0
    identical: int = 0

    def print_verdict(self) -> bool:
        """Print how many of several decisions were identical. Return True if all were."""
        all_identical = self.identical == self.total
        verdict = f"{self.identical} of {self.total} identical"
        if self.total == 0:
            print_stderr("There is nothing to replay.")
        elif self.as_json and not self.alone:
            print_stderr(verdict)
        elif not self.alone:
            print_text((verdict, "bold green" if all_identical else "bold red"))
        return all_identical

    def print(self, report: dict[str, Any], played: ReplayReport | None = None) -> None:
        """Print `report`, the JSON of a replay. `played` is the same with its steps, which may be printed too."""
        self.total += 1
        self.identical += report["identical"]
        if self.as_json:
            typer.echo(json_line(report))
            return
        if self.steps and played is not None:
            for step in played.steps:
                print_step(step)
            if played.replayed is not None:
                print_text()
                print_answer(played.replayed.decision)
        if report["identical"] and not (self.alone or self.steps):
            return
        verdict = ("identical ", "bold green") if report["identical"] else ("differs   ", "bold red")
        print_text(verdict, report["decision_id"])
        if report["departure"] is not None:
            print_text(f"  departs: {visible(report['departure'])}")
        for one in report["differences"]:
            print_text((f"  {one['what']}", "bold"))
            print_text(("    recorded  ", "dim"), shorten(one["recorded"], _VALUE))
            print_text(("    replayed  ", "dim"), shorten(one["replayed"], _VALUE))


def _replay_slices(slices: list[TimeSlice], job: ReplayJob, printer: _Printer, division: Division) -> None:
    if job.what_if.constitution is not None:
        Constitution.parse(job.what_if.constitution)
    expected = sum(part.decisions for part in slices)
    with division.run(replay_slice, job, slices, ["replay", *job.to_json()]) as finished, progress_bar("replaying") as advance:
        for reports in finished:
            for report in reports:
                printer.print(report)
            advance(printer.total, expected)


async def _replay_all(
    sources: AsyncIterator[LoadedRecord],
    expected: int | None,
    printer: _Printer,
    what_if: WhatIf,
    *,
    live: bool,
    model: str | None,
) -> None:
    replayer, adapter = Replayer(), None
    async with AsyncExitStack() as stack:
        if live:
            adapter, reason = await stack.enter_async_context(open_adapter(read_settings(), model))
            print_stderr(f"model: {reason}")
        with progress_bar("replaying") as advance:
            async for found in sources:
                played = await found.replay(replayer, what_if, adapter)
                report = played.to_json()
                printer.print(report, played)
                advance(printer.total, expected)


async def _read_target(target: str, database: Database | None) -> AsyncIterator[LoadedRecord]:
    if database is not None:
        yield await load_from_log(database, target)
        return
    for found in read_file(Path(target)):
        yield found


@contextmanager
def _open_source(target: str | None) -> Iterator[tuple[Run, Any]]:
    """Open the log; a file as target needs no database."""
    if target is not None and Path(target).is_file():
        with asyncio.Runner() as runner:
            yield runner.run, None
    else:
        with open_log() as (database, run):
            yield run, database
