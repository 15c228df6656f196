"""`graph-agent log verify` and `log heads`: is the record still what was written?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from graph_agent.cli.choice import opened_log
from graph_agent.cli.progress import counting
from graph_agent.cli.running import DONE, FAILED, AsJson, settings_now, tell, wrong_usage
from graph_agent.cli.show import json_line, out

if TYPE_CHECKING:
    from graph_agent.record.tamper.verify import VerifyReport


def verify(
    heads: Annotated[
        Path | None,
        typer.Option("--heads", metavar="FILE", help="What `log heads` once gave, kept elsewhere.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the log: every record in its chain, every row against its record. Exit code 1 where anything is wrong."""
    given = None if heads is None else _read(heads)
    with opened_log() as (database, run), counting("verifying") as advance:
        from graph_agent.record.tamper.heads import SignedHeads
        from graph_agent.record.tamper.verify import verify_log
        from graph_agent.bootstrap import chain_key

        outside = None if given is None else SignedHeads.from_text(given)
        report = run(verify_log(database, key=chain_key(settings_now()), heads=outside, on_progress=advance))
    if as_json:
        typer.echo(json_line({"intact": report.intact, **report.to_json()}))
    else:
        _print_report(report, compared=heads is not None)
    raise typer.Exit(DONE if report.intact else FAILED)


def heads(
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write them to this file.", show_default="stdout")
    ] = None,
) -> None:
    """Where every chain of the log ends, signed. Keep it outside: with it `log verify` finds an end that was cut off."""
    with opened_log() as (database, run):
        from graph_agent.record.tamper.heads import sign_heads
        from graph_agent.bootstrap import chain_key
        from graph_agent.clock import SystemClock

        signed = run(sign_heads(database, chain_key(settings_now()), SystemClock().now()))
    if to is None:
        typer.echo(signed.to_text(), nl=False)
        return
    try:
        to.write_text(signed.to_text(), encoding="utf-8")
    except OSError:
        wrong_usage(f"the file {to} cannot be written")
    tell(f"{len(signed.heads)} heads written to {to}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        wrong_usage(f"the file {path} cannot be read")


def _print_report(report: VerifyReport, *, compared: bool) -> None:
    console = out()
    for finding in report.findings:
        console.print(Text.assemble((f"{finding.kind:<11}", "bold red"), finding.text))
    if report.count > len(report.findings):
        console.print(f"... and {report.count - len(report.findings)} more")
    seen = f"{report.records} records in {report.chains} chains"
    more = [f"{report.pruned} pruned" if report.pruned else "", f"{report.open} turns still open" if report.open else ""]
    seen = ", ".join([seen, *filter(None, more)])
    if report.intact:
        console.print(Text.assemble(("intact", "bold green"), f": {seen}"))
        if not compared:
            tell("Whether the end of a chain was cut off shows only against heads that were kept outside: --heads FILE.")
    else:
        console.print(Text.assemble((f"{report.count} findings", "bold red"), f": {seen}"))
