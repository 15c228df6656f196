"""`graph-agent rules activate`, `rollback` and `follow`: which rules every process on the database has to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import AnalysisResult, Answer, Change, prove
from graph_agent.bootstrap.candidate_rules import CandidateRules, rules_of_files, stored_rules
from graph_agent.bootstrap.policies import load_accepted_policy
from graph_agent.bootstrap.rules_versions import read_version
from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.cli.decided_now import decided_now
from graph_agent.cli.options import OperatorReason, option, with_files
from graph_agent.cli.policy_analysis import files_compared, line_of
from graph_agent.cli.running import FAILED, Run, local_account, open_in_loop, print_error, read_text, wrong_usage
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.rule_set import Activation, ActivationKind, RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.record.rule_sets import activate_rules, find_activation, list_activations
from graph_agent.record.statements import read
from graph_agent.record.tree.leaves import Sealer
from graph_agent.reply.text import counted, visible
from graph_agent.settings import Settings

_SHOWN = 12
"""The characters of a digest that are printed."""
_SAME_COMPARED = 1000
"""The activations that are searched for other rules than those in force."""

AllowNew = Annotated[
    bool, typer.Option("--allow-new", help="Activate them although something is newly possible, or was not compared.")
]
Expect = Annotated[
    str | None, option("--expect", "N|DIGEST", "Activate nothing unless these rules are in force.", "those in force now")
]
Drain = Annotated[bool, typer.Option("--drain", help="Let the turns that run now end under their rules.")]
Last = Annotated[int, typer.Option("--last", min=0, help="Decide the last N recorded decisions by the new rules too.")]
Seconds = Annotated[float, option("--seconds", "N", "Limit each question to the solver to this time.", "5")]
Promises = Annotated[Path | None, option("--promises", "FILE", "Store these promises with the rules.", "those in force")]


@with_files()
def activate(
    reason: OperatorReason,
    allow_new: AllowNew = False,
    expect: Expect = None,
    drain: Drain = False,
    promises: Promises = None,
    last: Last = 100,
    seconds: Seconds = 5,
    *,
    settings: Settings,
) -> None:
    """Put the rules of the files and settings here in force for every process on this database.

    From then on each process has these rules, whatever its files say. They must keep the promises in force and their own, and
    what they newly permit needs --allow-new. Turns under earlier rules end with what was done, unless they may --drain.
    """
    given = None if promises is None else read_text(promises)
    with open_in_loop(open_stores(settings)) as (stores, run):
        now = run(read(stores.database, find_activation))
        kept = None if now is None else now[1].parts.get("promises")
        candidate = run(rules_of_files(settings, stores.database, promises=given if given is not None else kept))
        gate = _Gate(settings, stores, run, now, seconds, last)
        _activate(gate, candidate, ActivationKind.ACTIVATED, reason, expect, allow_new=allow_new, drain=drain)


@with_files("mcp")
def rollback(
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="Go back to these rules.", show_default="the last other ones")
    ] = None,
    *,
    reason: OperatorReason,
    allow_new: AllowNew = False,
    expect: Expect = None,
    drain: Drain = False,
    last: Last = 100,
    seconds: Seconds = 5,
    settings: Settings,
) -> None:
    """Put earlier rules in force again, under a new number.

    They pass the same gate: to go back may loosen. Without a number they are the last ones that differ from those in force.
    """
    with open_in_loop(open_stores(settings)) as (stores, run), TemporaryDirectory() as folder:
        now = run(read(stores.database, find_activation))
        if number is None:
            number = _last_other(run(read(stores.database, lambda connection: list_activations(connection, _SAME_COMPARED))))
        candidate = run(stored_rules(settings, stores.database, number, Path(folder)))
        gate = _Gate(settings, stores, run, now, seconds, last)
        _activate(gate, candidate, ActivationKind.ROLLBACK, reason, expect, allow_new=allow_new, drain=drain)


class _Gate:
    """The steps that a candidate passes before it is in force."""

    def __init__(
        self, settings: Settings, stores: Stores, run: Run, now: tuple[Activation, RuleSet] | None, seconds: float, last: int
    ) -> None:
        self.settings, self.stores, self.run = settings, stores, run
        self.now, self.seconds, self.last = now, seconds, last

    def unproved(self, policy: CompiledPolicy, candidate: CandidateRules) -> Iterator[AnalysisResult]:
        """Yield the promises in force, and those of the candidate, that it does not certainly keep."""
        texts = [] if self.now is None else [self.now[1].parts.get("promises", "")]
        results: list[AnalysisResult] = []
        for text in dict.fromkeys([*texts, candidate.rule_set.parts.get("promises", "")]):
            if text.strip():
                file = ConditionsFile(text, "the promises", candidate.settings.role_names, candidate.settings.time_zone)
                results += prove(policy, file, self.seconds)
        proved = [one for one in results if one.answer is Answer.PROVED]
        if results:
            typer.echo(f"promises: {len(proved)} of {len(results)} PROVED")
        return (one for one in results if one.answer is not Answer.PROVED)

    def differences(self, policy: CompiledPolicy, candidate: CandidateRules) -> list[AnalysisResult]:
        """Return what the candidate decides otherwise than the rules in force."""
        if self.now is None:
            return []
        with TemporaryDirectory() as folder:
            version = Path(f"@{self.now[0].number}")
            old = self.run(read_version(self.settings, version, self.stores.database, Path(folder)))
            before = self.run(load_accepted_policy(old.settings, self.stores.database))
            return [*compare(before, policy, self.seconds), *files_compared(old, candidate.version)]

    def given_up(self, candidate: CandidateRules) -> Iterator[AnalysisResult]:
        """Yield that earlier rules have other promises than those in force, which `activate` would keep."""
        kept = "" if self.now is None else self.now[1].parts.get("promises", "")
        if kept.strip() and kept != candidate.rule_set.parts.get("promises", ""):
            why = "those in force are not a part of these rules: what is activated later need not keep them"
            yield AnalysisResult("promises", Change.WIDER, why=why)


def _activate(
    gate: _Gate,
    candidate: CandidateRules,
    kind: ActivationKind,
    reason: str,
    expect: str | None,
    *,
    allow_new: bool,
    drain: bool,
) -> None:
    """Let the candidate pass the gate, and activate it. Exits with 1 if it does not pass."""
    database, sealer, now = gate.stores.database, Sealer(record_keys(gate.settings)), gate.now
    expected = 0 if now is None else now[0].number
    if expect is not None and not _is_expected(expect, now):
        text = f"The rules in force are {expected} and not {expect}: nothing was activated."
        raise ServiceError(ServiceErrorCode.RULES_CONFLICT, text)
    digest = candidate.rule_set.digest
    typer.echo(f"now: {'none' if now is None else _named(now[0])}; new: {digest[:_SHOWN]}")
    if now is not None and now[0].kind.binds and now[0].digest == digest:
        typer.echo("these rules are activated already")
        return
    policy = gate.run(load_accepted_policy(candidate.settings, database))
    if unproved := list(gate.unproved(policy, candidate)):
        for one in unproved:
            print_error(f"{one.answer.upper()}: the promise '{one.name}'. {line_of(one)}")
        raise typer.Exit(FAILED)
    results = gate.differences(policy, candidate)
    if kind is ActivationKind.ROLLBACK:
        results += gate.given_up(candidate)
    for one in results:
        typer.echo(visible(line_of(one)))
    if now is not None and not results:
        typer.echo("No call is decided otherwise.")
    if gate.last:
        decided = gate.run(decided_now(gate.stores.log_reads, policy, gate.last))
        typer.echo(f"of the last {gate.last} recorded decisions {len(decided)} would be decided otherwise")
        for decision_id, change in decided:
            typer.echo(visible(f"  {decision_id}: {change}"))
    looser = [one for one in results if one.may_loosen]
    if looser and not allow_new:
        print_error(f"{counted(len(looser), 'line')} above may loosen the rules: add --allow-new if that is meant")
        raise typer.Exit(FAILED)
    activating = activate_rules(
        database, candidate.rule_set, sealer, expected=expected, kind=kind, drain=drain, by=local_account(), reason=reason
    )
    activated = gate.run(activating)
    typer.echo(f"activated {activated.number} ({digest[:_SHOWN]}) at {activated.at:%H:%M:%S.%f} UTC, for every process")


def _last_other(activations: Sequence[Activation]) -> int:
    """Return the number of the newest activation of other rules than those in force."""
    others = [one.number for one in activations if one.digest != activations[0].digest]
    if not others:
        wrong_usage("there are no earlier rules to go back to: `graph-agent rules list` lists those that were in force")
    return others[0]


def _is_expected(expect: str, now: tuple[Activation, RuleSet] | None) -> bool:
    if now is None:
        return expect == "0"
    return expect == str(now[0].number) or (len(expect) >= _SHOWN and now[0].digest.startswith(expect))


def _named(one: Activation) -> str:
    by = f" by {one.by}" if one.by else f" from {one.host}"
    return visible(f"{one.number} ({one.digest[:_SHOWN]}), {one.kind} {one.at:%Y-%m-%d %H:%M} UTC{by}")
