"""Replaying: the compiled graph walks a turn again, and every port answers from the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from datetime import datetime

from graph_agent.turn.recorder import Recorder
from graph_agent.clock import SystemClock
from graph_agent.turn.engine import compose_record
from graph_agent.errors import ConstitutionError, GraphAgentError
from graph_agent.graph.build import build_graph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import Step, walk
from graph_agent.graph.topology import START, TOPOLOGY
from graph_agent.models.canonical import digest
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.record import RECORD_VERSION, DecisionRecord, RecordHeader
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.rules import compile_policy
from graph_agent.policy.snapshot import TermDigests, Terms
from graph_agent.ports import LLMAdapter, TurnPorts
from graph_agent.replay.report import Difference, ReplayReport, compare_outcomes, compare_paths, compare_records
from graph_agent.replay.supposing import SupposedPorts
from graph_agent.replay.watching import WatchedPorts

_REMEMBERED_TERMS = 64
_TERM_NAMES = ("constitution", "tools", "settings", "prompt")
_BEFORE_THE_GRAPH = frozenset({OutcomeCategory.RATE_LIMITED, OutcomeCategory.USER_INPUT})


async def replay(
    record: DecisionRecord,
    texts: Mapping[str, str],
    *,
    policy: str | None = None,
    live: LLMAdapter | None = None,
) -> ReplayReport:
    """Run the turn of `record` again; `texts` holds at least the four texts its header names, by digest.

    Alone it proves that path, requests, answers, decision and calls come out the same. `policy` is the text of another
    constitution, `live` a model to ask instead of the recorded one: then the report says what would have come out, and where
    the record has no answer any more. Raises `ConstitutionError` for a policy that is none.
    """
    return await Replayer().replay(record, texts, policy=policy, live=live)


class Replayer:
    """Replays any number of decisions with one compiled graph."""

    def __init__(self) -> None:
        self._graph = build_graph()
        self._terms: dict[TermDigests, Terms] = {}

    async def replay(
        self,
        record: DecisionRecord,
        texts: Mapping[str, str],
        *,
        policy: str | None = None,
        live: LLMAdapter | None = None,
    ) -> ReplayReport:
        """See `replay`."""
        other = None if policy is None else Constitution.parse(policy)
        if wrong := (*_wrong_form(record), *_wrong_texts(record.header, texts)):
            return ReplayReport(record, wrong)
        try:
            terms = self._terms_of(record.header, texts)
        except (GraphAgentError, ValueError, TypeError, LookupError) as exc:
            return ReplayReport(record, (), f"the terms of the record cannot be read: {_words(exc)}")
        if not record.states:
            return ReplayReport(record, _never_walked(record))
        report, heard = await self._same(record, terms)
        if not report.identical or (other is None and live is None):
            return report
        if other is not None:
            terms = _under(terms, other)
        return await self._supposed(record, terms, SupposedPorts(record, heard, live))

    async def _same(self, record: DecisionRecord, terms: Terms) -> tuple[ReplayReport, WatchedPorts]:
        recorder = Recorder(record.header, clock=SystemClock(), played=record.entries)
        ports = WatchedPorts(recorder)
        steps, departure = await self._walk(record, terms, ports)
        if departure is not None or steps[-1].turn.decision is None:
            return ReplayReport(record, compare_paths(record, steps), departure, steps), ports
        again = _composed(recorder, steps, record.ended_at)
        differences = compare_records(record, again)
        if not recorder.finished:
            left = record.entries[len(recorder.recorded)]
            departure = f"the turn ended before entry {left.n} of the record ({left.kind}) was asked for"
        return ReplayReport(record, differences, departure, steps, again), ports

    async def _supposed(self, record: DecisionRecord, terms: Terms, ports: SupposedPorts) -> ReplayReport:
        steps, departure = await self._walk(record, terms, ports)
        if departure is not None or steps[-1].turn.decision is None:
            return ReplayReport(record, compare_paths(record, steps), departure, steps)
        again = _composed(Recorder(record.header, clock=SystemClock()), steps, record.ended_at)
        return ReplayReport(record, compare_outcomes(record, again), None, steps, again)

    async def _walk(self, record: DecisionRecord, terms: Terms, ports: TurnPorts) -> tuple[tuple[Step, ...], str | None]:
        """The steps of the turn, and why it ended early if it did."""
        steps: list[Step] = []
        header = record.header
        turn = Turn(context=header.context, decision_id=header.decision_id)
        try:
            async for step in walk(self._graph, turn, TurnRuntime(ports, terms)):
                steps.append(step)  # noqa: PERF401 (what was walked before a failure is wanted)
        except Exception as exc:
            # Anything a changed node or a changed record may raise; where it happened is what the report is for.
            at = TOPOLOGY.get(steps[-1].state, {}).get(steps[-1].outcome, "the next state") if steps else START
            return tuple(steps), f"{at}: {_words(exc)}"
        return tuple(steps), None if steps else "nothing was walked"

    def _terms_of(self, header: RecordHeader, texts: Mapping[str, str]) -> Terms:
        digests = TermDigests(*(getattr(header, name) for name in _TERM_NAMES))
        terms = self._terms.get(digests)
        if terms is None:
            terms = Terms.from_texts({name: texts[name] for name in astuple(digests)}, digests)
            if len(self._terms) >= _REMEMBERED_TERMS:
                self._terms.clear()
            self._terms[digests] = terms
        return terms


def _composed(recorder: Recorder, steps: tuple[Step, ...], ended_at: datetime) -> DecisionRecord:
    return compose_record(recorder, steps, max(ended_at, recorder.header.started_at))


def _wrong_form(record: DecisionRecord) -> tuple[Difference, ...]:
    """What no turn asks about: the version, and that the entries stand in their order."""
    places = [entry.n for entry in record.entries]
    wrong = []
    if record.header.version != RECORD_VERSION:
        wrong.append(Difference("header.version", str(record.header.version), str(RECORD_VERSION)))
    if places != list(range(len(places))):
        wrong.append(Difference("the entries' numbers", str(places), "their order"))
    return tuple(wrong)


def _wrong_texts(header: RecordHeader, texts: Mapping[str, str]) -> tuple[Difference, ...]:
    """The texts that are missing, or are not what the record names."""
    wrong = []
    for name in _TERM_NAMES:
        wanted = getattr(header, name)
        if wanted not in texts:
            wrong.append(Difference(f"the text of the {name}", wanted, "nothing"))
        elif digest(texts[wanted]) != wanted:
            wrong.append(Difference(f"the text of the {name}", wanted, digest(texts[wanted])))
    return tuple(wrong)


def _never_walked(record: DecisionRecord) -> tuple[Difference, ...]:
    """A message that was turned away before the graph has no path; then it has nothing else either."""
    decision = record.decision
    bare = record.replace(
        entries=[],
        iterations=0,
        usage=None,
        invocations=[],
        decision=decision.replace(
            decision_type=DecisionType.RESPOND_ONLY,
            tool_calls=None,
            pending_action=None,
            clarification_question=None,
            response_text=decision.reply,
            effects=[],
            decision_id=record.header.decision_id,
        ),
    )
    if decision.outcome_category in _BEFORE_THE_GRAPH:
        return compare_records(record, bare)
    return (Difference("path", "nothing", f"a decision {decision.outcome_category} is made by the graph"),)


def _under(terms: Terms, other: Constitution) -> Terms:
    """`terms` with another constitution; the tools stay what their servers said they were."""
    rules = terms.policy.rules
    declarations = [rule.declaration for rule in rules.values()]
    traits = {name: rule.traits for name, rule in rules.items()}
    prompt = other.text if terms.prompt == terms.policy.constitution.text else terms.prompt
    return Terms(compile_policy(other, declarations, traits, partial=True), terms.config, prompt)


def _words(exc: Exception) -> str:
    if isinstance(exc, GraphAgentError | ConstitutionError):
        return str(exc)
    return f"it failed with {type(exc).__name__}: {exc}"
