"""`graph-agent log verify`: the check of the log, and the print of its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from graph_agent.bootstrap.maintenance import verify_installation
from graph_agent.cli.executors import Division, divided, progress_bar
from graph_agent.cli.opened_tree import open_tree
from graph_agent.cli.options import AsJson
from graph_agent.cli.running import DONE, FAILED, checking
from graph_agent.cli.show import print_result, print_text
from graph_agent.record.tamper.tree_check import CheckedPart, CheckedTree, TreeDivision, TreeJob, check_stored_part, split_tree
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.reply.text import counted


@divided
def verify(
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the witnesses.")] = False,
    *,
    division: Division,
    as_json: AsJson = False,
) -> None:
    """Verify the log: its rows, its signed tree, and that it continues what its witnesses have seen.

    It also finds turns, and changes of tasks, whose decision is missing.
    Exits with 1 if anything differs, and with 3 if the check could not finish.
    """
    with checking(), open_tree() as (settings, stores, tree, run), progress_bar("verifying") as advance:
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
