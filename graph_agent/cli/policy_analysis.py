"""`graph-agent policy explain`, `diff` and `prove`: what a policy permits, for every possible call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.examples import Example
from graph_agent.analysis.loosened_fields import compare_settings
from graph_agent.analysis.questions import AnalysisResult, Answer, Change, explain, prove
from graph_agent.analysis.servers import compare_servers
from graph_agent.bootstrap.database_rules import pins_of
from graph_agent.bootstrap.policies import load_accepted_policy, servers_as_written
from graph_agent.bootstrap.rules_versions import RulesVersion, have_other_servers, read_version
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.database import run_with_database
from graph_agent.cli.options import AsJson, option, with_files
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_error
from graph_agent.cli.show import json_line
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.reply.text import visible
from graph_agent.settings import Settings

_UNKNOWN = 2
"""The exit code if nothing fails, but an answer is not known."""

Seconds = Annotated[float, option("--seconds", "N", "Limit each question to the solver to this time.", "5")]


@with_files()
def explain_policy(*, settings: Settings, seconds: Seconds = 5, as_json: AsJson = False) -> None:
    """Print for every tool whether it may run without a yes, with one, and with approvals.

    Never, sometimes or always: for any arguments, roles, times and earlier calls. The examples are a call that runs and one
    that does not. The guard has confirmed each.
    """
    results = explain(run_with_database(load_accepted_policy, settings), seconds)
    width = max(len(result.name) for result in results)
    has_approvals = any(result.with_approvals is not None for result in results)
    for result in results:
        with_yes, why = result.with_yes or result.answer, result.why or _example(result.example)
        line = f"{result.name:<{width}}  without a yes: {result.answer:<9}  with a yes: {with_yes:<9}"
        if has_approvals:
            line += f"  with approvals: {result.with_approvals or with_yes:<9}"
        line += f"  {why}"
        if result.otherwise is not None:
            line += f"\n{'':<{width}}  not {_example(result.otherwise)}  guard: {result.otherwise.guard}"
        _print(result, line.rstrip(), as_json=as_json)


@with_files()
def diff_policies(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Compare this file or folder, or the rules `@N` of `rules list`.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Compare with this one.")],
    last: Annotated[int, typer.Option("--last", min=0, help="Decide the last N recorded decisions by the new policy too.")] = 0,
    no_new: Annotated[bool, typer.Option("--no-new", help="Exit with 1 if anything is newly possible, 2 if unknown.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
    *,
    settings: Settings,
    seconds: Seconds = 5,
    as_json: AsJson = False,
) -> None:
    """Print what a change of the policy newly permits.

    OLD and NEW are files of conditions, constitutions (`.md`), or folders with `policy.cedar`, `constitution.md`, its lock
    file, `servers.json`, `settings.env` and `allowed_signers`. What they do not have is that of the options. `@7` is the rules
    that `rules list` numbers 7, with the servers of the options. With a lock file, the tools are those of the file, and no
    server is started. What cannot be compared is printed as "not compared".
    """
    with open_in_loop(open_stores(settings)) as (stores, run), TemporaryDirectory() as folder:
        versions = [run(read_version(settings, one, stores.database, Path(folder))) for one in (old, new)]
        before, after = (run(load_accepted_policy(one.settings, stores.database)) for one in versions)
        results = [*compare(before, after, seconds), *files_compared(*versions), *_lost_lock(*versions)]
        decided: Sequence[tuple[str, str]] = ()
        if last:
            # Imported here, because it replays the decisions, which loads LangGraph; the rest does without.
            from graph_agent.cli.decided_now import decided_now

            decided = run(decided_now(stores.log_reads, after, last))
    if markdown:
        typer.echo("| Change | Tool or condition | Example | Guard |\n|---|---|---|---|")
    for result in results:
        example = _example(result.example)
        guard = result.example.guard if result.example is not None else ""
        row = f"| {result.answer} | `{result.name}` | {f'`{example}`' if example else result.why} | {guard} |"
        _print(result, row if markdown else line_of(result), as_json=as_json)
    for decision_id, change in decided:
        line = f"{'- ' if markdown else ''}{decision_id}: {change}"
        typer.echo(json_line({"decision_id": decision_id, "change": change}) if as_json else line)
    if not results and not as_json:
        typer.echo("No call is decided otherwise.")
    looser = [one for one in results if one.may_loosen]
    unknown = list(dict.fromkeys(one.name for one in looser if not one.is_certain))
    if no_new and unknown:
        print_error(f"it is not known whether anything is newly possible: not compared or not confirmed: {', '.join(unknown)}")
    raise typer.Exit(DONE if not (no_new and looser) else FAILED if any(one.is_certain for one in looser) else _UNKNOWN)


@with_files()
def prove_promises(
    promises: Annotated[Path, typer.Argument(metavar="PROMISES", help="Check the forbid conditions in this file.")],
    *,
    settings: Settings,
    seconds: Seconds = 5,
    as_json: AsJson = False,
) -> None:
    """Check promises about every call that the policy accepts.

    A promise is a `forbid` that must match no accepted call, in any state that accepted calls can lead to. Exits with 0 if all
    are proved, 1 if one fails, 2 if one is unknown.
    """
    file = ConditionsFile.load(promises, settings.role_names, settings.time_zone)
    results = prove(run_with_database(load_accepted_policy, settings), file, seconds)
    for result in results:
        line = f"{result.answer.upper():<8}{result.name}  {result.why or _example(result.example)}"
        _print(result, line.rstrip(), as_json=as_json)
    fails = any(one.answer is Answer.FAILS and one.is_certain for one in results)
    raise typer.Exit(FAILED if fails else DONE if all(one.answer is Answer.PROVED for one in results) else _UNKNOWN)


def files_compared(old: RulesVersion, new: RulesVersion) -> Iterator[AnalysisResult]:
    """Yield what two versions of the rules differ in beside the policy."""
    before, after = old.settings, new.settings
    yield from compare_servers(servers_as_written(before), servers_as_written(after))
    yield from compare_settings(before, after)
    if have_other_servers(old, new):
        yield AnalysisResult("servers", Change.NOT_COMPARED, why="they differ; stored rules have only digests of them")


def _lost_lock(old: RulesVersion, new: RulesVersion) -> Iterator[AnalysisResult]:
    if pins_of(old.settings) is not None and pins_of(new.settings) is None:
        yield AnalysisResult("lock file", Change.NOT_COMPARED, why="there is none any more, so tools may change")


def line_of(result: AnalysisResult) -> str:
    """Return a difference as one line."""
    example = _example(result.example)
    guard = result.example.guard if result.example is not None else ""
    text = f"{result.answer}: {result.name}" if not example else f"{result.answer}: {example}  guard: {guard}"
    return f"{text}{result.why and f': {result.why}'}"


def _print(result: AnalysisResult, line: str, *, as_json: bool) -> None:
    typer.echo(json_line(result.to_json()) if as_json else visible(line))


def _example(example: Example | None) -> str:
    if example is None:
        return ""
    return f"{example}" if example.confirmed else f"{example}  possible, not confirmed (guard: {example.guard})"
