"""One turn, from its start to its closing row, read from top to bottom.

Two tasks run a turn. The *owner* does everything that must happen once a turn has begun: it waits for the graph, closes the
record and completes what the session adds. The *driver* walks the graph. It is a separate task because a model or a tool may
neither answer nor let itself be cancelled; the owner then abandons the driver, which can no longer write, and ends the turn
without it. A turn that does not end by itself is walked once more over its record, with the interruption as the last entry:
the same nodes compose its decision, and it can be replayed like any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Generic, TypeVar

from graph_agent import errors
from graph_agent.clock import ignore_result, run_with_timeout, turn_deadline
from graph_agent.graph.state import Turn
from graph_agent.graph.step import Step
from graph_agent.graph.topology import START
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import (
    RECORD_VERSION,
    DecisionOpening,
    DecisionRecord,
    EntryKind,
    InterruptReason,
    OpenTurn,
    RecordEntry,
    RecordHeader,
)
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import Clock, Confirmations
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.turn.finished import FinishedTurn, compose_record
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.recorder import Recorder, ResentCallError
from graph_agent.turn.setup import TurnSetup

_log = logging.getLogger(__name__)

_MIN_SECONDS_TO_CLOSE = 2.0
_CLOSE_AGAIN_SECONDS = (0.25, 0.5)
"""The first waits between the attempts to close a row while the log is not available; further ones take a second."""
_INTERRUPTIONS: dict[type[BaseException], InterruptReason] = {
    errors.RecordUnavailableError: InterruptReason.RECORD,
    ResentCallError: InterruptReason.RESENT,
    errors.StoppedError: InterruptReason.STOPPED,
    errors.RulesReplacedError: InterruptReason.RULES,
    errors.ConfirmationExpiredError: InterruptReason.DEADLINE,
}
"""The reason of an interruption by an exception of the recorder."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenedTurn:
    """A new turn whose opening row is committed."""

    header: RecordHeader
    snapshot: PolicySnapshot

    @property
    def opening(self) -> DecisionOpening:
        """The opening row."""
        return DecisionOpening.of(self.header, self.snapshot.texts, self.snapshot.rule_set)


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The start of a run: of a new turn, or, without one, of what is recorded under the decision id."""

    new: DecisionContext | OpenedTurn | None = None
    resumes: bool = False
    """True to continue from the record, if there is one, instead of beginning the new turn."""
    asks_model: bool = True
    """False to end a recorded turn where it would ask the model, as interrupted."""
    follows_yes: bool = True
    """False to end a recorded turn at the end of its record, even if it needs no model for what the user has confirmed."""


class TurnSession(Generic[T]):
    """The caller's part of a turn, inside the owner task. It gives the run its result, such as a stored answer."""

    writer: AuditWriter | None = None
    """Writes the record of this turn instead of the engine's writer."""
    confirmations: Confirmations | None = None
    """Uses up the confirmations of this turn instead of the engine's store."""
    clock: Clock | None = None
    """The clock of this turn instead of the engine's."""
    attempt: int = 1
    """The number of the attempt of the turn."""
    arrived_at: float | None = None
    """The time from which the deadline of the turn counts, in seconds of the monotonic clock; by default its start."""

    @asynccontextmanager
    async def surround(self, run: TurnRun[Any]) -> AsyncGenerator[None]:  # noqa: ARG002 (for subclasses)
        """Enclose the whole turn."""
        yield

    async def complete(self, finished: FinishedTurn | None) -> T:
        """Return the result of the run after the closing row; None if there was no such turn to finish."""
        raise NotImplementedError

    async def fail(self, run: TurnRun[Any], failure: BaseException) -> T:  # noqa: ARG002 (for subclasses)
        """Return a result in spite of `failure`, or raise."""
        raise failure


class PlainSession(TurnSession[FinishedTurn | None]):
    """Adds nothing: the result of a run is the finished turn."""

    async def complete(self, finished: FinishedTurn | None) -> FinishedTurn | None:
        return finished

    async def fail(self, run: TurnRun[Any], failure: BaseException) -> FinishedTurn | None:
        if not isinstance(failure, errors.TurnTakenOverError):
            run.leave_open()
        raise failure


class TurnRun(TurnHandle[T]):
    """A turn while it runs, and its result afterwards. An engine starts runs."""

    def __init__(
        self,
        setup: TurnSetup,
        start: TurnStart,
        session: TurnSession[T],
        decision_id: str,
        user_id: str | None,
        hooks: Iterable[TurnHook] = (),
    ) -> None:
        super().__init__(decision_id, user_id, hooks)
        self._began_at = setup.ports.clock.monotonic() if session.arrived_at is None else session.arrived_at
        self._setup = setup
        self._start = start
        self._session = session
        self._writer = session.writer or setup.ports.audit
        self._clock = session.clock or setup.ports.clock
        confirmations = session.confirmations or setup.external.confirmations
        self._recorder = partial(
            Recorder,
            clock=self._clock,
            external=replace(setup.external, confirmations=confirmations, attempt=session.attempt),
            writer=self._writer,
            hooks=self.hooks,
            began_at=self._began_at,
        )
        """Returns a recorder around the real ports."""

    def begin(self) -> None:
        """Start the owner task."""
        self.start(self._own(), self._setup.runs)

    def leave_open(self) -> None:
        """Leave the decision to the next sweep of this process: no claim expires that would show that its run has ended."""
        self._writer.leave_open(self.decision_id)

    async def _own(self) -> T:
        async with self._session.surround(self):
            try:
                return await self._session.complete(await self._run())
            except BaseException as exc:  # a cancellation too: the session then ends the turn as far as that is still possible
                return await self._session.fail(self, exc)

    async def _run(self) -> FinishedTurn | None:
        """Run the turn to its closing row; None if there is neither a new turn nor a record."""
        new = self._start.new
        if new is None or self._start.resumes:
            stored = await self._writer.load(self.decision_id)
            if stored is not None:
                return await self._resume(stored)
        if new is None:
            return None
        if isinstance(new, OpenedTurn):
            return await self._run_to_end(self._recorder(new.header, new.snapshot))
        with self.hooks.progress_shown():
            snapshot = await self._setup.prepare()
        turn = OpenedTurn(self._setup.header(new, snapshot, self.decision_id), snapshot)
        return await self._run_to_end(self._recorder(turn.header, snapshot), opening=turn.opening)

    async def _open(self, opening: DecisionOpening, timeout_seconds: float) -> None:
        """Commit the opening row. Raises `ServiceError` or `ConfigurationError` if that cannot be done: nothing is called."""
        try:
            seconds = self._began_at + timeout_seconds - self._setup.ports.clock.monotonic()
            await run_with_timeout(seconds, self._writer.write_opening(opening))
        except (errors.TurnTakenOverError, errors.ServiceError, errors.ConfigurationError):
            raise
        except Exception as exc:
            text = "The request cannot be recorded right now. Please try again later."
            raise errors.ServiceError(errors.ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc

    async def _resume(self, stored: OpenTurn | DecisionRecord) -> FinishedTurn:
        """Replay the recorded entries under the recorded policy snapshot.

        If the model may be asked, the turn then continues live under that snapshot, if its rules are those of this process and
        the version of the record is the same. What the user has confirmed needs no model: see `_can_confirm`. Otherwise it ends
        there as interrupted.
        """
        if isinstance(stored, DecisionRecord):
            if self._session.writer is None:
                return FinishedTurn(stored)
            # An engine without this session may have closed the row: what the session stores with it is missing then.
            return await self._close_in(self._setup.config.timeout_seconds, self._close(stored))
        if not stored.sealed:
            # Its entries would be trusted, and its calls settled: a row that was added from outside must not start either.
            raise errors.outcome_unknown(self.decision_id)
        current = await self._setup.prepare()
        entries = list(stored.entries)
        asks_model, follows_yes = self._start.asks_model, self._start.follows_yes
        # A closing decision is not repeated, and it asks no model: it continues in any case.
        asks_model = asks_model or stored.header.context.approval is not None
        try:
            snapshot = await self._setup.snapshot_of(stored.header)
        except (errors.ConfigurationError, LookupError, ValueError):
            text = "the policy snapshot of decision %s cannot be read; it is closed without its record"
            _log.exception(text, self.decision_id)
            snapshot, entries, asks_model, follows_yes = current, [], False, False
        asks_model = asks_model and current.has_rules(snapshot.digests) and stored.header.version == RECORD_VERSION
        can_confirm = follows_yes and self._can_confirm(stored.header, entries, current)
        # The rules are compared only for a yes.
        has_yes = any(entry.kind is EntryKind.RULES for entry in entries)
        continues = can_confirm if has_yes else asks_model or can_confirm
        if not continues:
            crash = {"reason": InterruptReason.CRASH, "in_flight": None}
            entries.append(RecordEntry(n=len(entries), kind=EntryKind.INTERRUPT, result=crash))
        recorder = self._recorder(
            stored.header,
            snapshot,
            replayed=entries,
            saved=len(stored.entries),
            in_force=current.policy,
            asks_model=asks_model,
        )
        # A turn that does not continue is ending already: a cancellation would end it no sooner.
        return await self._run_to_end(recorder, cancellable=continues)

    def _can_confirm(self, header: RecordHeader, entries: Sequence[RecordEntry], current: PolicySnapshot) -> bool:
        """Return True if the turn may still do what its user has confirmed, if its message is a yes.

        The question must not have expired, and the rules under which it was asked must be in force. A decision without a model
        is not continued: its caller has gone, and may have requested the calls again.
        """
        pending = header.context.pending_confirmation
        return (
            pending is not None
            and header.version == RECORD_VERSION
            # A gate of today might stop the call.
            and header.gates == current.digests.get("gates")
            and self._clock.now() < pending.expires_at
            and all(one.tool_name in current.policy.rules for one in pending.each)
            and not current.policy.differences(pending.asked_under)
            and not any(entry.kind is EntryKind.MODEL for entry in entries)
        )

    async def _run_to_end(
        self, recorder: Recorder, *, opening: DecisionOpening | None = None, cancellable: bool = True
    ) -> FinishedTurn:
        self.hooks.turn = recorder.header
        self.hooks.notify(TurnHook.before_turn, recorder.header)
        try:
            if opening is not None:
                await self._open(opening, recorder.snapshot.config.timeout_seconds)
            finished = await self._drive(recorder, cancellable)
        except BaseException as exc:
            self.hooks.notify(TurnHook.after_turn, recorder.header, exc)
            raise
        self.hooks.notify(TurnHook.after_turn, recorder.header, finished.record)
        return finished

    async def _drive(self, recorder: Recorder, cancellable: bool) -> FinishedTurn:
        """Run the graph in the driver task, and close the record whatever ends it."""
        clock, reserve = self._setup.ports.clock, recorder.snapshot.config.closing_seconds
        now = clock.monotonic()
        self.deadline = self._began_at + recorder.snapshot.config.timeout_seconds
        with turn_deadline(clock, self.deadline - reserve):
            driver = asyncio.create_task(self._walk(recorder))
        reason = await self._wait_for(driver, max(0.0, self.deadline - reserve - now), cancellable=cancellable)
        if driver.done() and not driver.cancelled():
            failure = driver.exception()
            if failure is None:
                return await self._close_in(
                    self.deadline - clock.monotonic(), self._compose_and_close(recorder, driver.result())
                )
            if isinstance(failure, errors.TurnTakenOverError):
                raise failure
            reason = _INTERRUPTIONS.get(type(failure), InterruptReason.FAILURE)
            if reason is InterruptReason.FAILURE:
                _log.error("a turn ended in an exception", exc_info=failure)
            else:
                _log.warning("decision %s is interrupted: %s", self.decision_id, reason)
        # From here on the driver can neither write nor call anything, whether it obeys its cancellation or not.
        recorder.fence()
        driver.cancel()
        driver.add_done_callback(ignore_result)
        if self.fenced:
            raise errors.TurnTakenOverError("another process may have this turn")
        return await self._interrupt(recorder, reason)

    async def _walk(self, recorder: Recorder) -> list[Step]:
        """Walk the turn and report each step; return the steps of this walk."""

        async def report(step: Step) -> None:
            self.add_step(step)
            if self.requested is not None:
                await self.requested.acquire()

        self.hooks.notify(TurnHook.before_node, recorder.header, START)
        return await recorder.walk(self._setup.graph, report)

    async def _wait_for(self, driver: asyncio.Future[Any], seconds: float, *, cancellable: bool = True) -> InterruptReason:
        """Wait for the driver, for `cancel`, or `seconds`; return why the turn is interrupted if the driver has no result."""
        awaited = {driver, self._cancelled} if cancellable else {driver}
        try:
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Only the end of the event loop cancels an owner; the record is closed first.
            self.cancel()
            return InterruptReason.CANCELLED
        if cancellable and self.cancelled_for is not None:
            return self.cancelled_for
        return InterruptReason.FAILURE if driver.done() else InterruptReason.DEADLINE

    async def _interrupt(self, recorder: Recorder, reason: InterruptReason) -> FinishedTurn:
        """End a turn that did not end by itself. Its ending has its own time limit, beyond the deadline."""
        # Settling a call in flight gets extra time, so that its outcome does not stay unknown for lack of time.
        seconds = max(recorder.snapshot.config.closing_seconds, _MIN_SECONDS_TO_CLOSE) + self._setup.external.settle_seconds
        if reason is InterruptReason.RECORD:
            # The log may be available again before the deadline; until then nothing else can be done.
            seconds = max(seconds, self.deadline - self._setup.ports.clock.monotonic())
        # Many turns may reach their deadline together. They are closed in batches, and the time of each begins with
        # its batch; otherwise all of them would wait for each other until their time is over.
        async with self._setup.closing:
            with turn_deadline(self._setup.ports.clock, self._setup.ports.clock.monotonic() + seconds):
                return await self._close_in(seconds, self._close_interrupted(recorder, reason))

    async def _close_interrupted(self, recorder: Recorder, reason: InterruptReason) -> FinishedTurn:
        """Walk the turn over its record to a decision, with `reason` as its last entry, and close it."""
        entries = recorder.ended_by(reason)
        while True:
            ends_us = [step.ended_us for step in self.steps]
            again = self._recorder(
                recorder.header,
                recorder.snapshot,
                replayed=entries,
                saved=recorder.saved,
                ends_us=ends_us,
                in_force=recorder.in_force,
            )
            try:
                steps = await again.walk(self._setup.graph)
                break
            except Exception:
                _log.exception("a turn could not be walked over its record")
                if len(entries) == 1:
                    raise
                # This version cannot walk the whole record: keep what it can walk, or in the end only the interruption.
                again.fence()
                passed = again.ended_by(InterruptReason.CRASH, only_passed=True)
                entries = passed if len(passed) < len(entries) else [passed[-1].replace(n=0)]
        finished = await self._compose_and_close(again, steps)
        self.add_missing_steps(steps)
        return finished

    async def _close_in(self, seconds: float, close: Coroutine[Any, Any, FinishedTurn]) -> FinishedTurn:
        """Await the closing for `seconds`, two at least. A log that never answers leaves the row to the sweeper."""
        try:
            return await run_with_timeout(max(seconds, _MIN_SECONDS_TO_CLOSE), close)
        except TimeoutError as exc:
            raise errors.outcome_unknown(self.decision_id) from exc

    async def _compose_and_close(self, recorder: Recorder, steps: Sequence[Step]) -> FinishedTurn:
        record = compose_record(recorder, self._setup.graph, steps, self._clock.now())
        return await self._close(record, steps[-1].turn)

    async def _close(self, record: DecisionRecord, turn: Turn | None = None) -> FinishedTurn:
        """Make the row terminal, as soon as the log is available. The caller limits the time."""
        waits = chain(_CLOSE_AGAIN_SECONDS, repeat(1.0))
        while True:
            try:
                return FinishedTurn(await self._writer.close_decision_log(record), turn)
            except errors.RecordUnavailableError:
                _log.warning("the log does not take the end of decision %s yet", self.decision_id)
            await asyncio.sleep(next(waits))
