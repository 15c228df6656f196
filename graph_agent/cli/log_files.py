"""`graph-agent log export`: decisions to a file."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.proof_files import proof_files
from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.bootstrap.toolbox import conditions_of
from graph_agent.cli.database import open_log, open_queries
from graph_agent.cli.last import decision_id_of
from graph_agent.cli.options import command_settings, filter_by, option
from graph_agent.cli.running import open_file, print_stderr, read_text, wrong_usage
from graph_agent.cli.show import escape_json
from graph_agent.clock import SystemClock
from graph_agent.policy.constitution import MAX_CHARACTERS
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.sources import LoadedRecord
from graph_agent.settings import read_settings

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
    *,
    filters: DecisionFilter,
) -> None:
    """Export closed decisions as records, oldest first.

    Another installation can replay them. Each has the columns of the log beside its record, for queries: docs/evaluation.md.

    With --proof, write files by which anyone can check that one decision is in the log: a program, and a page for a browser,
    which also plays the turn.
    """
    if proof is not None:
        _write_proof(proof, Path("." if file == "-" else file), constitution, conditions)
        return
    if rules := constitution or conditions:
        wrong_usage(f"{rules}: other rules are shown in the proof of one decision: --proof DECISION_ID")
    with open_queries() as (log, run), ExitStack() as stack:
        pieces = log.export_logs(form, filters)
        run(_write(pieces, sys.stdout if file == "-" else stack.enter_context(open_file(file, "w"))))


def other_rules(constitution: Path | None, conditions: Path | None) -> WhatIf:
    """Return the replay by the rules of these files."""
    text = None if constitution is None else read_text(constitution, MAX_CHARACTERS + 1)
    return WhatIf(text, None if conditions is None else conditions_of(command_settings(conditions=conditions)))


def _write_proof(decision_id: str, folder: Path, constitution: Path | None, conditions: Path | None) -> None:
    other = other_rules(constitution, conditions)

    async def replay_by_others(recorded: LoadedRecord) -> dict[str, Any]:
        texts = {constitution: other.constitution, conditions: other.conditions and other.conditions.text}
        rules = {file.name: text for file, text in texts.items() if file is not None}
        return {"rules": rules, **(await recorded.replay(Replayer(), other)).to_json()}

    with open_log(writes=True) as (database, run):
        decision_id = decision_id_of(decision_id, database, run)
        tree = record_tree(read_settings(), database, SystemClock())
        run(tree.seal())
        files = run(proof_files(database, tree, decision_id, what_if=replay_by_others if constitution or conditions else None))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as exc:
        wrong_usage(f"the folder {folder} cannot be written: {exc.strerror}")
    print_stderr(
        f"{folder}: open decision.html, or run: python verify_proof.py decision.json decision.tlog-proof trusted_keys.txt"
    )


async def _write(pieces: AsyncIterator[str], file: IO[str]) -> None:
    # On a terminal hidden characters could control it; the JSON keeps its value.
    written = escape_json if file.isatty() else str
    async for piece in pieces:
        file.write(written(piece))
    file.flush()
