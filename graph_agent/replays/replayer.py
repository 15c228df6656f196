"""The replayer: it runs a turn through the nodes of the graph again, with ports that answer from its record."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from types import FrameType

from graph_agent.clock import SystemClock
from graph_agent.errors import ConfigurationError, ConstitutionError, GraphAgentError
from graph_agent.graph.build import CompiledGraph, gates_of, shipped_graph
from graph_agent.graph.ports import TurnPorts
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.step import Step
from graph_agent.graph.stepping import walk_edges
from graph_agent.graph.topology import INVOKE_LLM, START
from graph_agent.models.canonical import digest
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.record import RECORD_VERSION, DecisionRecord, RecordHeader
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import LLMAdapter
from graph_agent.replays import report as reports
from graph_agent.replays.ports import PlaybackRecorder, WhatIfPorts
from graph_agent.replays.report import Difference, ReplayReport
from graph_agent.turn.finished import compose_record, refused_record
from graph_agent.turn.reading import reading_of, reading_record
from graph_agent.turn.recorder import Recorder

REPLAY_SECONDS = 30.0
"""The longest time of one replay. A record from a file, another constitution or a model may make it take long."""
_MAX_SNAPSHOTS = 64
"""Policy snapshots that are kept, because compiling one costs more than replaying a turn."""
_parse = lru_cache(maxsize=4)(Constitution.parse)
"""The same constitution decides all decisions of a log."""
_BEFORE_THE_GRAPH = frozenset({OutcomeCategory.RATE_LIMITED, OutcomeCategory.USER_INPUT})
"""Outcomes of messages that are refused before the graph runs."""


async def replay(
    record: DecisionRecord,
    texts: Mapping[str, str],
    *,
    constitution: str | None = None,
    conditions: ConditionsFile | None = None,
    live: LLMAdapter | None = None,
    graph: CompiledGraph | None = None,
    mandates: bool = True,
) -> ReplayReport:
    """Run the turn of `record` again. `texts` contains, by digest, at least the four texts that its header references.

    Without further arguments the report says whether path, requests, answers, decision and calls are the same. `constitution`
    is the text of another one, `conditions` are others in Cedar, `live` is a model to call instead of using the recorded
    answers: then the report says what would have been decided, and where the record has no answer. `graph` is that of the
    engine, if it is not the shipped one. Without `mandates` the user is asked about what a plan has covered. Raises
    `ConstitutionError` if `constitution` is not one.
    """
    return await Replayer(graph=graph).replay(record, texts, WhatIf(constitution, conditions, mandates), live=live)


class ReplayTimeout(BaseException):
    """A replay has exceeded its time within one step. Not an `Exception`, which a step may handle and continue."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIf:
    """The rules to decide by instead of the recorded ones: another constitution, other conditions, both, or neither."""

    constitution: str | None = None
    """The text of the constitution."""
    conditions: ConditionsFile | None = None
    mandates: bool = True
    """False to ask about what a mandate has covered."""

    @property
    def key(self) -> tuple[str, ...]:
        return (self.constitution or "", "" if self.conditions is None else repr(self.conditions))

    def applied(self, snapshot: PolicySnapshot) -> PolicySnapshot:
        """Return `snapshot` with these rules and the same tool declarations."""
        recorded = snapshot.policy
        constitution = recorded.constitution if self.constitution is None else _parse(self.constitution)
        declarations = [rule.served for rule in recorded.rules.values()]
        traits = {name: rule.traits for name, rule in recorded.rules.items()}
        servers = recorded.servers or (self.conditions.servers if self.conditions is not None else {})
        policy = compile_policy(constitution, declarations, traits, partial=True, servers=servers)
        of_record = None if recorded.conditions is None else recorded.conditions.file
        if (file := self.conditions or of_record) is not None:
            policy = policy.with_conditions(file)
        prompt = constitution.prompt if snapshot.prompt == recorded.constitution.prompt else snapshot.prompt
        return PolicySnapshot(policy, snapshot.config, prompt, snapshot.gates)


AS_RECORDED = WhatIf()


class Replayer:
    """Replays any number of decisions, and keeps the policies that it has compiled."""

    def __init__(self, seconds: float = REPLAY_SECONDS, graph: CompiledGraph | None = None) -> None:
        """A replay that takes longer than `seconds` is ended. `graph` is that of the engine."""
        self.seconds = seconds
        self._graph = graph or shipped_graph()
        self._snapshots: dict[tuple[str, ...], PolicySnapshot] = {}

    async def replay(
        self,
        record: DecisionRecord,
        texts: Mapping[str, str],
        what_if: WhatIf = AS_RECORDED,
        *,
        live: LLMAdapter | None = None,
        interruptible: bool = False,
    ) -> ReplayReport:
        """Replay one decision; see the function `replay`. It ends at its next step or `await` after the time limit.

        In a process that does nothing else it can be `interruptible`: a step that computes for too long is ended too, and only
        the time counts in which this process or a model has worked, not that in which a busy machine did other things.
        """
        if what_if.constitution is not None:
            # Here, because an invalid one is the caller's error, not an end of the replay.
            _parse(what_if.constitution)
        try:
            with _interrupted_after(self.seconds) if interruptible else nullcontext():
                async with asyncio.timeout(self.seconds if live is not None or not interruptible else None) as limit:
                    return await self._replay(record, texts, what_if, live)
        except (TimeoutError, ReplayTimeout) as exc:
            if isinstance(exc, TimeoutError) and not limit.expired():
                raise
            return ReplayReport(record.header.decision_id, (), f"the replay took longer than {self.seconds:g} s and was ended")

    async def _replay(
        self, record: DecisionRecord, texts: Mapping[str, str], other: WhatIf, live: LLMAdapter | None
    ) -> ReplayReport:
        name = record.header.decision_id
        if invalid := (*_invalid_fields(record), *_invalid_texts(record.header, texts)):
            return ReplayReport(name, invalid)
        digests = record.header.digests
        key = tuple(digests.values())
        try:
            snapshot = recorded = self._compile(key, lambda: PolicySnapshot.from_texts(texts, digests))
        except (GraphAgentError, ValueError, TypeError, LookupError) as exc:
            return ReplayReport(name, (), f"the policy snapshot of the record cannot be read: {_message(exc)}")
        if not record.states:
            return ReplayReport(name, _check_without_states(record))
        report, played = await self._replay_unchanged(record, snapshot)
        known = {gate.name for gate in gates_of(self._graph)}
        if not report.identical and (missing := [name for name in snapshot.gates if name not in known]):
            why = f"the record was made with the gate '{missing[0]}', which this process does not have"
            report = dataclasses.replace(report, departure=f"{report.departure}; {why}" if report.departure else why)
        if not report.identical or (other == AS_RECORDED and live is None):
            return report
        if other != AS_RECORDED:
            of_rules = (*key, *other.key, str(snapshot is recorded))
            try:
                snapshot = self._compile(of_rules, lambda: other.applied(snapshot))
            except ConfigurationError as exc:
                return ReplayReport(name, (), f"the other rules do not fit the recorded tools: {exc}")
        return await self._replay_what_if(
            record, snapshot, WhatIfPorts(record, snapshot, played, live, mandates=other.mandates)
        )

    async def _replay_unchanged(
        self, record: DecisionRecord, snapshot: PolicySnapshot
    ) -> tuple[ReplayReport, PlaybackRecorder]:
        name = record.header.decision_id
        recorder = PlaybackRecorder(record, snapshot)
        steps, departure = await self._walk(record, snapshot, recorder)
        if departure is not None or steps[-1].turn.decision is None:
            return ReplayReport(name, reports.compare_paths(record, steps), departure, steps), recorder
        # The times are no part of a replay.
        replayed = compose_record(recorder, self._graph, steps, record.ended_at).replace(state_ends_us=record.state_ends_us)
        differences = reports.compare_records(record, replayed)
        if not recorder.finished:
            unused = record.entries[len(recorder.recorded)]
            departure = f"the turn ended before it requested entry {unused.n} of the record ({unused.kind})"
        return ReplayReport(name, differences, departure, steps, replayed), recorder

    async def _replay_what_if(self, record: DecisionRecord, snapshot: PolicySnapshot, ports: WhatIfPorts) -> ReplayReport:
        name = record.header.decision_id
        steps, departure = await self._walk(record, snapshot, ports)
        refused = reports.calls_refused_now(record, steps[-1].turn) if steps else ()
        if departure is not None or steps[-1].turn.decision is None:
            if refused and departure is not None and departure.startswith(INVOKE_LLM):
                # The reason is what the other constitution decided, not that the model was never asked about it.
                departure = f"{'; '.join(dict.fromkeys(map(str, refused)))}. What the model would have said then is unknown"
            differences = reports.compare_unfinished(record, steps)
            return ReplayReport(
                name, differences, departure, steps, refused=refused, is_what_if=True, unanswered=ports.unanswered
            )
        replayed = compose_record(Recorder(record.header, snapshot, clock=SystemClock()), self._graph, steps, record.ended_at)
        return ReplayReport(name, reports.compare_outcomes(record, replayed), None, steps, replayed, refused, is_what_if=True)

    async def _walk(
        self, record: DecisionRecord, snapshot: PolicySnapshot, ports: TurnPorts
    ) -> tuple[tuple[Step, ...], str | None]:
        """Run the turn; return its steps and, if it ended early, a sentence that says why."""
        steps: list[Step] = []
        turn = Turn.of(record.header)
        try:
            async for step in walk_edges(self._graph, turn, TurnRuntime(ports, snapshot)):
                steps.append(step)
                # A step need not wait for anything. Here the time limit of the replay can end it.
                await asyncio.sleep(0)
        except Exception as exc:
            # A changed node or a changed record may raise anything. The report says in which state.
            at = steps[-1].entered if steps else START
            return tuple(steps), f"{at}: {_message(exc)}"
        return tuple(steps), None if steps else "the graph ran no step"

    def _compile(self, key: tuple[str, ...], compiled: Callable[[], PolicySnapshot]) -> PolicySnapshot:
        """Return the snapshot that was compiled under this key, or compile it."""
        snapshot = self._snapshots.get(key)
        if snapshot is None:
            snapshot = compiled()
            if len(self._snapshots) >= _MAX_SNAPSHOTS:
                self._snapshots.clear()
            self._snapshots[key] = snapshot
        return snapshot


def _invalid_fields(record: DecisionRecord) -> tuple[Difference, ...]:
    """Check the fields that no node reads: the version of the record and the numbers of its entries."""
    numbers = [entry.n for entry in record.entries]
    wrong = []
    if record.header.version != RECORD_VERSION:
        wrong.append(Difference("header.version", str(record.header.version), str(RECORD_VERSION)))
    if numbers != list(range(len(numbers))):
        wrong.append(Difference("the numbers of the entries", str(numbers), f"0 to {len(numbers) - 1}"))
    ends = record.state_ends_us
    if ends and (len(ends) != len(record.states) or ends != sorted(ends)):
        wrong.append(Difference("the times of the states", str(ends), f"{len(record.states)} rising times"))
    return tuple(wrong)


def _invalid_texts(header: RecordHeader, texts: Mapping[str, str]) -> tuple[Difference, ...]:
    """Check that the referenced texts exist and match their digests."""
    wrong = []
    for name, wanted in header.digests.items():
        if wanted not in texts:
            wrong.append(Difference(f"the text of the {name}", wanted, "nothing"))
        elif digest(texts[wanted]) != wanted:
            wrong.append(Difference(f"the text of the {name}", wanted, digest(texts[wanted])))
    return tuple(wrong)


def _check_without_states(record: DecisionRecord) -> tuple[Difference, ...]:
    """Check a record without states: of a reading, or of a message that was refused, in which only the reply may be."""
    if (reading := reading_of(record)) is not None:
        return reports.compare_records(record, reading_record(record.header, reading))
    outcome = record.decision.outcome_category
    if outcome not in _BEFORE_THE_GRAPH:
        return (Difference("path", "nothing", f"a decision {outcome} is made only by the graph"),)
    refused = refused_record(record.header, outcome, record.decision.reply).decision
    only_refused = record.replace(entries=[], iterations=0, usage=None, invocations=[], decision=refused)
    return reports.compare_records(record, only_refused)


def _message(exc: Exception) -> str:
    if isinstance(exc, GraphAgentError | ConstitutionError):
        return str(exc)
    return f"it failed with {type(exc).__name__}: {exc}"


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `ReplayTimeout` in this thread after `seconds` of the process's CPU time, whatever it computes.

    It uses a signal, which only the main thread can handle: in another thread it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise ReplayTimeout

    before = signal.signal(signal.SIGPROF, interrupt)
    left, interval = signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        # The timer of someone else, such as a profiler, may come late, but it comes.
        signal.setitimer(signal.ITIMER_PROF, left, interval)
