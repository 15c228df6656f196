"""`graph-agent log export`: decisions to a file."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.cli.database import open_queries
from graph_agent.cli.options import filter_by, option
from graph_agent.cli.running import open_file, wrong_usage
from graph_agent.cli.show import escape_json

_CHUNK = 1 << 20


@filter_by("decision_id", "user_id", "conversation_id", "since", "until", "decision_type", "outcome")
def export_decisions(
    file: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Write to this file; - is stdout.")] = "-",
    form: Annotated[str, option("--format", "FORMAT", "Write in this format: jsonl or json.")] = "jsonl",
    proof: Annotated[
        str | None,
        option("--proof", "DECISION_ID", "Write the proof of this decision (an id, or `last`) to --out."),
    ] = None,
    constitution: Annotated[
        Path | None, option("--constitution", "FILE", "With --proof: show what this constitution would have decided.")
    ] = None,
    conditions: Annotated[
        Path | None, option("--conditions", "FILE", "With --proof: show what these conditions in Cedar would have decided.")
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="With --proof: add the folder rules, which shows under which rules it was made.")
    ] = False,
    *,
    filters: DecisionFilter,
) -> None:
    """Export closed decisions as records, oldest first.

    Another installation can replay them. Each has the columns of the log beside its record, for queries: docs/export.md.

    With --proof, write files by which anyone can check that one decision is in the log: a program, and a page for a browser,
    which also plays the turn.
    """
    if proof is not None:
        # Imported here, because a proof shows the turn, which is walked again: an export without one loads no graph.
        from graph_agent.cli.proof import write_proof

        write_proof(proof, Path("." if file == "-" else file), constitution, conditions, with_rules=rules)
        return
    if rules:
        wrong_usage("--rules belongs to the proof of one decision: --proof DECISION_ID")
    if other := constitution or conditions:
        wrong_usage(f"{other}: other rules are shown in the proof of one decision: --proof DECISION_ID")
    with open_queries() as (log, run), ExitStack() as stack:
        pieces = log.export_logs(form, filters)
        run(_write(pieces, sys.stdout if file == "-" else stack.enter_context(open_file(file, "w"))))


async def _write(pieces: AsyncIterator[str], file: IO[str]) -> None:
    # On a terminal hidden characters could control it; the JSON keeps its value.
    written = escape_json if file.isatty() else str
    async for piece in pieces:
        file.write(written(piece))
    file.flush()
