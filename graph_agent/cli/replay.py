"""`graph-agent replay`: a decision runs again from its record, and is the same or is shown where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graph_agent.cli.choice import (
    ByModel,
    OfConversation,
    OfIntent,
    OfOutcome,
    OfStatus,
    OfType,
    OfUser,
    Since,
    Until,
    chosen,
    opened_log,
)
from graph_agent.cli.progress import counting
from graph_agent.cli.running import DONE, FAILED, AsJson, Model, Run, settings_now, tell, wrong_usage
from graph_agent.cli.show import json_line, out, plain, print_answer
from graph_agent.cli.step import print_step
from graph_agent.cli.trace import shortened

if TYPE_CHECKING:
    from graph_agent.audit.filters import DecisionFilter
    from graph_agent.db import Database
    from graph_agent.ports import LLMAdapter
    from graph_agent.replay import Replayer, ReplayReport
    from graph_agent.replay.sources import Found

_VALUE = 300
"""Characters of a value that are printed; --json has them all."""


def replay(
    target: Annotated[
        str | None, typer.Argument(metavar="DECISION_ID|FILE", help="A decision, or an exported file.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every closed decision of the log.")] = False,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="What would this constitution have decided?", show_default=False),
    ] = None,
    steps: Annotated[bool, typer.Option("--step", help="Print every state and what it changed.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Ask today's model; recorded tool results are used.")] = False,
    model: Model = None,
    user: OfUser = None,
    conversation: OfConversation = None,
    since: Since = None,
    until: Until = None,
    decision_type: OfType = None,
    outcome: OfOutcome = None,
    intent: OfIntent = None,
    status: OfStatus = None,
    by_model: ByModel = None,
    as_json: AsJson = False,
) -> None:
    """Run decisions again, offline, from their records: no network, no effect. Exit code 1 where anything differs."""
    if (target is None) is not everything:
        wrong_usage("name a decision or an exported file, or ask for --all")
    if live and everything:
        wrong_usage("--live asks the model anew for every decision: name one, or a file")
    filters = chosen(
        user_id=user,
        conversation_id=conversation,
        since=since,
        until=until,
        decision_type=decision_type,
        outcome=outcome,
        intent_type=intent,
        status=status,
        model=by_model,
    )
    other = None if policy is None else _read(policy)
    with _opened(target) as (run, database):
        printer = _Printer(steps, as_json, alone=target is not None and database is not None)
        if target is None:
            sources, expected = _of_log(database, filters), run(_count(database, filters))
        else:
            sources, expected = _of_target(target, database), None
        tally = run(_replay_all(sources, expected, printer, policy=other, live=live, model=model))
    if tally.total == 0:
        tell("There is nothing to replay.")
    elif not printer.alone:
        verdict = f"{tally.identical} of {tally.total} identical"
        if as_json:
            tell(verdict)
        else:
            out().print(Text(verdict, style="bold green" if tally.identical == tally.total else "bold red"))
    raise typer.Exit(DONE if tally.identical == tally.total else FAILED)


@dataclass(slots=True)
class _Tally:
    total: int = 0
    identical: int = 0


@dataclass(frozen=True, slots=True)
class _Printer:
    """Tells of one replay after the other."""

    steps: bool
    as_json: bool
    alone: bool
    """One decision was named; of many only those that differ are told."""

    def tell(self, name: str, report: ReplayReport | None) -> None:
        if self.as_json:
            unread = {"decision_id": name, "identical": False, "departure": "the record cannot be read"}
            typer.echo(json_line(unread if report is None else report.to_json()))
            return
        console = out()
        if report is None:
            console.print(Text.assemble(("differs   ", "bold red"), name, ": the record cannot be read"))
            return
        if self.steps:
            for step in report.steps:
                print_step(console, step)
            if report.replayed is not None:
                console.print()
                print_answer(console, report.replayed.decision)
        if report.identical and not (self.alone or self.steps):
            return
        verdict = ("identical ", "bold green") if report.identical else ("differs   ", "bold red")
        console.print(Text.assemble(verdict, name))
        if report.departure is not None:
            console.print(Text(f"  departs at {plain(report.departure)}"))
        for one in report.differences:
            console.print(Text(f"  {one.what}", style="bold"))
            console.print(Text.assemble(("    recorded  ", "dim"), shortened(one.recorded, _VALUE)))
            console.print(Text.assemble(("    replayed  ", "dim"), shortened(one.replayed, _VALUE)))


async def _replay_all(
    sources: AsyncIterator[Found],
    expected: int | None,
    printer: _Printer,
    *,
    policy: str | None,
    live: bool,
    model: str | None,
) -> _Tally:
    from graph_agent.bootstrap import choose_adapter
    from graph_agent.replay import Replayer

    adapter = None
    if live:
        adapter, reason = choose_adapter(settings_now(), model)
        tell(f"model: {reason}")
    tally, replayer = _Tally(), Replayer()
    try:
        with counting("replaying") as advance:
            async for found in sources:
                report = await _one(replayer, found, policy, adapter)
                tally.total += 1
                tally.identical += report is not None and report.identical
                printer.tell(found.name, report)
                advance(tally.total, expected)
    finally:
        closing = getattr(adapter, "aclose", None)
        if closing is not None:
            await closing()
    return tally


async def _one(replayer: Replayer, found: Found, policy: str | None, adapter: LLMAdapter | None) -> ReplayReport | None:
    if found.record is None:
        return None
    return await replayer.replay(found.record, found.texts, policy=policy, live=adapter)


async def _of_log(database: Database, filters: DecisionFilter) -> AsyncIterator[Found]:
    from graph_agent.replay.sources import all_of_log

    async for found in all_of_log(database, filters):
        yield found


async def _of_target(target: str, database: Database | None) -> AsyncIterator[Found]:
    from graph_agent.replay.sources import all_of_file, one_of_log

    if database is not None:
        yield await one_of_log(database, target)
        return
    for found in all_of_file(Path(target)):
        yield found


async def _count(database: Database, filters: DecisionFilter) -> int:
    from graph_agent.audit.queries import LogQueryService

    return (await LogQueryService(database).query_decisions(filters, limit=1)).total


@contextmanager
def _opened(target: str | None) -> Iterator[tuple[Run[Any], Any]]:
    """The log, or no database at all where the target is a file."""
    if target is not None and Path(target).is_file():
        with asyncio.Runner() as runner:
            yield runner.run, None
    else:
        with opened_log() as (database, run):
            yield run, database


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        wrong_usage(f"the file {path} cannot be read")
