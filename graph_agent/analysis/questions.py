"""The questions about policies: what may run, what a change newly permits, and whether promises hold.

Nothing is answered by the solver alone: an example counts only if the guard decides the same about it. Whether a condition
outside of the encoded fragment holds is left open: what is so either way is proved, and an example that the guard does not
confirm then makes the answer unknown. Proofs are by induction: `used` holds the state after the call, which only accepted calls
change, and about `succeeded` and `attempted` the facts are proved first that each accepted call keeps. The guard judges each
call by what the calls before it have done, also in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

import z3
from cedarpy import pst

from graph_agent.analysis.encoding import Encoder, Parsed, in_words, literals, outcomes
from graph_agent.analysis.examples import Example, find_example
from graph_agent.analysis.joined_actions import joined
from graph_agent.analysis.symbols import SymbolicCall, Unencodable, disjunction
from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.conditions import ConditionsFile, Verdict
from graph_agent.policy.cedar.evaluation import PERMIT, SOURCE_PARTS
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.syntax import Reads, covers, walk
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.facts import Fact as DeclaredFact

Fact = tuple[tuple[str, str, bool], ...]
"""One of these holds in any state to which accepted calls lead: a set of the context ("attempted") has a tool or not."""


class Answer(StrEnum):
    """The answers about a tool, a change or a promise."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    ALWAYS = "always"
    PROVED = "proved"
    FAILS = "fails"
    UNKNOWN = "unknown"


class Change(StrEnum):
    """The kinds of differences between two policies."""

    RUNS = "newly possible without a yes"
    ASKS = "newly possible with a yes"
    WAITS = "newly possible with an approval"
    READS = "counts as a read now: no receipt, and conditions about changes do not cover it"
    UNASKED = "runs without a yes also if its server marks it as destructive"
    MOVED = "its calls go to another server"
    BELIEVED = "its results count as trusted now: they taint nothing, and may give facts"
    WIDER = "permits more now"
    TRUSTED = "is trusted now: its hints count, and it learns who calls"
    NOT_COMPARED = "not compared"
    NEEDS_YES = "now needs a yes"
    NEEDS_APPROVAL = "now needs an approval"
    REFUSED = "no longer possible"
    DECIDES_NOTHING = "decides nothing"
    COUNTED = "its budget begins at 0: no condition counted it before"

    @property
    def loosens(self) -> bool:
        return self in _LOOSENING


_LOOSENING: Final = frozenset(
    {
        *(Change.RUNS, Change.ASKS, Change.WAITS, Change.READS, Change.UNASKED, Change.MOVED, Change.TRUSTED),
        *(Change.BELIEVED, Change.WIDER),
    }
)


@dataclass(frozen=True)
class AnalysisResult:
    """An answer about `name`: a tool, a condition or a promise.

    An example that the guard does not confirm makes it uncertain.
    """

    name: str
    answer: Answer | Change
    example: Example | None = None
    why: str = ""
    """The reason of an unknown answer, what was not compared, or that a promise is about no tool."""
    with_yes: Answer | None = None
    """For a tool: whether it may run with a yes."""
    with_approvals: Answer | None = None
    """For a tool whose conditions count approvals: whether it may run with those of everybody, and a yes."""
    otherwise: Example | None = None
    """For a tool that runs sometimes: a call that does not."""

    @property
    def is_certain(self) -> bool:
        is_known = self.answer not in (Answer.UNKNOWN, Change.NOT_COMPARED)
        return is_known and all(one is None or one.confirmed for one in (self.example, self.otherwise))

    @property
    def may_loosen(self) -> bool:
        """For a change: True if something is newly possible, or if that is not known."""
        return self.answer is Change.NOT_COMPARED or (isinstance(self.answer, Change) and self.answer.loosens)

    def to_json(self) -> dict[str, Any]:
        answers = {"answer": self.answer, "with_yes": self.with_yes, "with_approvals": self.with_approvals}
        found = {"name": self.name, **answers, "why": self.why or None}
        examples = {"example": self.example, "otherwise": self.otherwise}
        return (
            {key: str(value) for key, value in found.items() if value is not None}
            | {"certain": self.is_certain, "may_loosen": self.may_loosen}
            | {key: asdict(value) for key, value in examples.items() if value is not None}
        )


def actions_of(policy: CompiledPolicy) -> Mapping[str, ToolAction]:
    """Return the tools of a policy by name, each as the conditions about it see it: with the facts that these name."""
    if policy.conditions is None:
        return {one.name: one for one in policy.actions}
    return policy.conditions.actions


def facts_of(policy: CompiledPolicy, tool: str) -> Mapping[str, DeclaredFact]:
    """Return the facts that are read before a call of a tool, by name."""
    return {} if policy.conditions is None else {one.name: one for one in policy.conditions.results.of_tool.get(tool, ())}


class Analysis:
    """Asks about policies for the same tools. `seconds` limit each question to the solver."""

    def __init__(self, *policies: CompiledPolicy, seconds: float, promises: Parsed | None = None) -> None:
        self._policies = policies
        self._milliseconds = round(1000 * seconds)
        self._conditions = [promises or {}, *(one.conditions.by_key for one in policies if one.conditions is not None)]
        self._literals = literals(self._conditions)
        reads = Reads(condition.clauses for conditions in self._conditions for condition in conditions.values())
        self._reads_sources = any(map(reads.has, SOURCE_PARTS))
        files = [one.conditions.file for one in policies if one.conditions is not None]
        self._roles = list(dict.fromkeys(role for file in files for role in file.roles))
        self.tools = dict.fromkeys(name for policy in policies for name in actions_of(policy))

    def call(self, tool: str, policy: CompiledPolicy | None = None) -> SymbolicCall:
        """Return the symbolic call of a tool of `policy`: by default, of the last policy that has it."""
        policy = policy or next(one for one in reversed(self._policies) if tool in one.rules)
        return self.call_of(actions_of(policy)[tool], policy.rules[tool].grant.bound_argument)

    def call_of(self, action: ToolAction, bound_argument: str | None, *, sourced_apart: bool = False) -> SymbolicCall:
        """Return the symbolic call of an action whose argument `bound_argument` is the id of the user in any case."""
        reads = {"reads_sources": self._reads_sources, "sourced_apart": sourced_apart}
        return SymbolicCall(action, self.tools, self._literals, bound_argument, self._roles, **reads)

    def possible(self, call: SymbolicCall, *conditions: Any) -> z3.Solver | None:
        """Return a solver that has found such a call; None if there is none. Raises `Unencodable` if it does not know."""
        solver = z3.Solver()
        solver.set("timeout", self._milliseconds)
        solver.add(*call.facts, *conditions)
        answer = solver.check()
        if answer == z3.unknown:
            raise Unencodable(f"not decided: {solver.reason_unknown()}")
        return solver if answer == z3.sat else None

    def facts_about_calls(self, policy: CompiledPolicy) -> list[Fact]:
        """Prove, for the tools that conditions name, what each accepted call of them needs to have been made, or not.

        Only what keeps true is proved so: a call that was attempted may succeed later, and neither is ever undone.
        """
        named = {
            node.value.id
            for node in walk([condition.clauses for conditions in self._conditions for condition in conditions.values()])
            if isinstance(node, pst.EntityLit) and str(node.value.type) == "Action"
        }
        names = sorted(named & self.tools.keys())
        facts: list[Fact] = []
        without: set[tuple[str, str]] = set()
        for name in names:
            not_made = ("attempted", name, False)
            if name not in policy.rules:
                facts.append((not_made,))
                continue
            try:
                call = self.call(name, policy)
                accepted = outcomes(call, policy, {}).accepted
                if self.possible(call, accepted) is None:
                    facts.append((not_made,))
                    continue
                for other in names:
                    needed = [
                        part
                        for part in ("succeeded", "attempted")
                        if other != name and self.possible(call, accepted, z3.Not(call.made(part, other))) is None
                    ]
                    if needed:
                        facts.append((not_made, (needed[0], other, True)))
                    elif other != name and self.possible(call, accepted, call.made("attempted", other)) is None:
                        without.add((name, other))
            except (Unencodable, z3.Z3Exception):
                continue
        apart = [(name, other) for name, other in without if (other, name) in without]
        return [*facts, *((("attempted", name, False), ("attempted", other, False)) for name, other in apart)]


_EFFECTS: Final = (
    [Verdict.RUNS],
    [Verdict.RUNS, Verdict.ASKS],
    [Verdict.RUNS, Verdict.ASKS, Verdict.WAITS],
)
"""The decisions that each of the formulas of `Outcomes` stands for, without an approval of the call."""


def explain(policy: CompiledPolicy, seconds: float) -> list[AnalysisResult]:
    """Return, for every tool, whether it runs without a yes, with one, and with approvals.

    The examples are of a call that runs and of one that does not.
    """
    analysis = Analysis(policy, seconds=seconds)
    facts = analysis.facts_about_calls(policy)

    def explained(tool: str) -> AnalysisResult:
        call = analysis.call(tool)
        known = [*formulas(facts, call), *call.without_approvals]
        answers: list[Answer] = []
        left_out: dict[str, str] = {}
        example = otherwise = None
        counts = policy.conditions is not None and bool(policy.conditions.approval_roles(tool))
        for condition, effects in list(zip(outcomes(call, policy, left_out), _EFFECTS, strict=True))[: 3 if counts else 2]:
            if (found := analysis.possible(call, *known, condition)) is None:
                answers.append(Answer.NEVER)
                continue
            example = example or find_example(found, call, [(policy, effects)])
            if (found := analysis.possible(call, *known, z3.Not(condition))) is None:
                answers.append(Answer.ALWAYS)
                continue
            answers.append(Answer.SOMETIMES)
            otherwise = otherwise or find_example(found, call, [(policy, [one for one in Verdict if one not in effects])])
        approved = answers[2] if counts else None
        decided = AnalysisResult(tool, answers[0], example, with_yes=answers[1], with_approvals=approved, otherwise=otherwise)
        if left_out and not decided.is_certain:
            return AnalysisResult(tool, Answer.UNKNOWN, why=in_words(left_out))
        return decided

    return _answers(explained, ((tool,) for tool in analysis.tools))


_READS_FOR_FACTS: Final = "the runtime may read '{}' by itself, and conditions that name facts do not judge such a read"


def prove(policy: CompiledPolicy, promises: ConditionsFile, seconds: float) -> list[AnalysisResult]:
    """Return, for each `forbid` of `promises`, whether it matches no accepted call. Raises `ConfigurationError`."""
    # On the same line, so that the lines of errors stay those of the file.
    promised = policy.with_conditions(replace(promises, text=f"{PERMIT} {promises.text}")).conditions
    assert promised is not None
    promised.require_valid()
    if promised.shadow:
        raise ConfigurationError(f"the promises {promises.name} have a rule with @shadow: a promise must hold")
    conditions = dict(list(promised.by_key.items())[1:])
    if any(condition.effect == "permit" for condition in conditions.values()):
        raise ConfigurationError(f"the promises {promises.name} have a permit: a promise is a forbid that matches no call")
    analysis = Analysis(policy, seconds=seconds, promises=conditions)
    facts = analysis.facts_about_calls(policy)
    named = promised.actions

    def proved(name: str, key: str) -> AnalysisResult:
        unknown: AnalysisResult | None = None
        about = [action for action in actions_of(policy).values() if covers(conditions[key], action)]
        if not about:
            return AnalysisResult(name, Answer.PROVED, why="it is about no tool")
        for action in about:
            asked = replace(named[action.name], seen=action.seen)
            call = analysis.call_of(joined(action, asked), action.bound_argument)
            left_out: dict[str, str] = {}
            decided = outcomes(call.under(action), policy, left_out)
            # The guard refuses a call whose facts have not the fields that it needs; a promise is about those that it names.
            broken = [z3.And(call.facts_fit(action), call.facts_fit(asked))]
            seen, breaks = call.under(asked), []
            for yes, runs in ((False, decided.silent), (True, decided.accepted)):  # with any approvals
                breaks.append(z3.And(runs, disjunction(Encoder(seen, confirmed=yes).condition(conditions[key]))))
            found = analysis.possible(call, *formulas(facts, call), *broken, disjunction(breaks))
            if found is not None:
                example = find_example(found, call, [(policy, [Verdict.RUNS, Verdict.ASKS])], forbidden_by=promised)
                if not left_out or example.confirmed:
                    return AnalysisResult(name, Answer.FAILS, example)
                # The condition that was left out may be what keeps the promise.
                unknown = unknown or AnalysisResult(name, Answer.UNKNOWN, why=in_words(left_out))
            elif not action.writes and key not in promised.results.conditions:
                read = outcomes(call.under(action), policy, {}, for_facts=True).silent
                broken_by_read = z3.And(read, disjunction(Encoder(seen, confirmed=False).condition(conditions[key])))
                if analysis.possible(call, *formulas(facts, call), broken_by_read) is not None:
                    unknown = unknown or AnalysisResult(name, Answer.UNKNOWN, why=_READS_FOR_FACTS.format(action.name))
        return unknown or AnalysisResult(name, Answer.PROVED)

    return _answers(proved, ((promised.names[key], key) for key in conditions))


def _answers(ask: Callable[..., AnalysisResult | None], questions: Iterable[tuple[str, ...]]) -> list[AnalysisResult]:
    """Return the results; a question that is not encoded, or not decided in time, is unknown under its first argument."""
    found = []
    for question in questions:
        try:
            found.append(ask(*question))
        except Unencodable as exc:
            found.append(AnalysisResult(question[0], Answer.UNKNOWN, why=str(exc)))
        except z3.Z3Exception:
            found.append(AnalysisResult(question[0], Answer.UNKNOWN, why="a condition is not encoded"))
    return [one for one in found if one is not None]


def formulas(facts: Iterable[Fact], call: SymbolicCall) -> list[Any]:
    return [
        disjunction([call.made(part, name) if was_made else z3.Not(call.made(part, name)) for part, name, was_made in fact])
        for fact in facts
    ]
