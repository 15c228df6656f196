"""`graph-agent log export` and `import`: the record in a file, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from graph_agent.cli.choice import OfConversation, OfOutcome, OfType, OfUser, Since, Until, chosen, opened_queries
from graph_agent.cli.running import FAILED, AsJson, settings_now, tell, wrong_usage
from graph_agent.cli.show import json_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK = 1 << 20


def export_decisions(
    file: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where to; - is stdout.")] = "-",
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="jsonl or json.")] = "jsonl",
    decision: Annotated[
        str | None, typer.Option("--id", metavar="DECISION_ID", help="Only this one.", show_default=False)
    ] = None,
    user: OfUser = None,
    conversation: OfConversation = None,
    since: Since = None,
    until: Until = None,
    decision_type: OfType = None,
    outcome: OfOutcome = None,
) -> None:
    """The closed decisions as records that can be imported and replayed elsewhere, oldest first."""
    with opened_queries() as (log, run), ExitStack() as stack:
        filters = chosen(
            decision_id=decision,
            user_id=user,
            conversation_id=conversation,
            since=since,
            until=until,
            decision_type=decision_type,
            outcome=outcome,
        )
        pieces = log.export_logs(form, filters)
        run(_write(pieces, _opened_for_writing(stack, file)))


def import_decisions(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `log export` wrote; - is stdin.")],
    as_json: AsJson = False,
) -> None:
    """Take exported decisions into this log. Those that stand already are left as they are; exits 1 where one differs."""
    with opened_queries() as (log, run), ExitStack() as stack:
        source = sys.stdin if file == "-" else stack.enter_context(_opened_for_reading(file))
        from graph_agent.bootstrap import chain_key

        report = run(log.import_logs(_chunks(source), chain_key=chain_key(settings_now())))
    if as_json:
        typer.echo(json_line(report.to_json()))
    else:
        typer.echo(f"{report.imported} decisions imported, {report.present} were there already")
    for decision_id in report.differing:
        tell(f"graph-agent: {decision_id} stands here with another record and was left as it is")
    if report.differing:
        raise typer.Exit(FAILED)


async def _write(pieces: AsyncIterator[str], file: TextIO) -> None:
    async for piece in pieces:
        file.write(piece)
    file.flush()


def _opened_for_writing(stack: ExitStack, file: str) -> Any:
    if file == "-":
        return sys.stdout
    try:
        return stack.enter_context(Path(file).open("w", encoding="utf-8"))
    except OSError:
        wrong_usage(f"the file {file} cannot be written")


def _opened_for_reading(file: str) -> TextIO:
    try:
        return Path(file).open(encoding="utf-8")
    except OSError:
        wrong_usage(f"the file {file} cannot be read")


def _chunks(source: TextIO) -> Iterator[str]:
    try:
        while chunk := source.read(_CHUNK):
            yield chunk
    except UnicodeDecodeError:
        wrong_usage("the file is not UTF-8 text")
