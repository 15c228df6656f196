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
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from graph_agent.clock import ignore_result, run_with_timeout, turn_deadline
from graph_agent.errors import (
    ConfigurationError,
    GraphAgentError,
    RecordError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    TurnTakenOverError,
    outcome_unknown,
)
from graph_agent.graph.stepping import Step
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
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.turn.finished import FinishedTurn, compose_record
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.recorder import Recorder
from graph_agent.turn.setup import TurnSetup

_log = logging.getLogger(__name__)

_MIN_SECONDS_TO_CLOSE = 2.0
_LATE_OPENING_SECONDS = 30.0
"""The time after the refusal of a turn within which its opening row may be committed, so that this process still closes it."""
_LATE_CLOSE_SECONDS = (1.0, 2.0, 4.0)
"""The waits between the attempts to close an opening row whose commit is not known."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The start of a run. Without a context it finishes what is recorded under its decision id."""

    context: DecisionContext | None = None
    resumes: bool = False
    """True to continue from the record, if there is one."""
    asks_model: bool = True
    """False to end the turn at the end of its record, as interrupted."""


class TurnSession(Generic[T]):
    """The caller's part of a turn, inside the owner task. It gives the run its result, such as a stored answer."""

    writer: AuditWriter | None = None
    """Writes the record of this turn instead of the engine's writer."""

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
        arrived_at: float | None = None,
    ) -> None:
        super().__init__(decision_id, user_id, hooks, arrived_at)
        self._setup = setup
        self._start = start
        self._session = session
        self._writer = session.writer or setup.ports.audit

    def begin(self) -> None:
        """Start the owner task."""
        self.start(self._own(), self._setup.running)

    async def _own(self) -> T:
        async with self._session.surround(self):
            try:
                return await self._session.complete(await self._finish(self._start))
            except BaseException as exc:  # a cancellation too: the session then ends the turn as far as that is still possible
                return await self._session.fail(self, exc)

    async def end_interrupted(self) -> FinishedTurn | None:
        """End the turn from its record, without asking the model. Its opening row is written if it is missing."""
        return await self._finish(TurnStart(self._start.context, resumes=True, asks_model=False))

    async def _finish(self, start: TurnStart) -> FinishedTurn | None:
        """Run the turn to its closing row; None if there is neither a record nor a context."""
        if start.resumes and (stored := await self._writer.load(self.decision_id)) is not None:
            return await self._resume(stored, asks_model=start.asks_model)
        if start.context is None:
            return None
        snapshot = await self._setup.prepare()
        header = self._setup.header(start.context, snapshot, self.decision_id)
        if start.asks_model:
            return await self._run_to_end(self._recorder(header, snapshot))
        # The earlier owner can then no longer write the row. If it has written it meanwhile, that row is used.
        with suppress(TurnTakenOverError):
            await self._writer.write_opening(DecisionOpening.of(header, snapshot.texts))
        return await self._finish(TurnStart(resumes=True, asks_model=False))

    async def _resume(self, stored: OpenTurn | DecisionRecord, *, asks_model: bool) -> FinishedTurn:
        """Replay the recorded entries under the recorded policy snapshot.

        If the model may be asked, the turn then continues live under that snapshot, if today's policy grants no less and the
        version of the record is the same; otherwise it ends there as interrupted.
        """
        if isinstance(stored, DecisionRecord):
            return FinishedTurn(stored)
        if not stored.sealed:
            # Its entries would be trusted, and its calls settled: a row that was added from outside must not start either.
            raise outcome_unknown(self.decision_id)
        current = await self._setup.prepare()
        entries = list(stored.entries)
        try:
            snapshot = await self._setup.snapshot_of(stored.header)
        except (ConfigurationError, LookupError, ValueError):
            text = "the policy snapshot of decision %s cannot be read; it is closed without its record"
            _log.exception(text, self.decision_id)
            snapshot, entries, asks_model = current, [], False
        asks_model = asks_model and current.grants_no_less_than(snapshot) and stored.header.version == RECORD_VERSION
        if not asks_model:
            crash = {"reason": InterruptReason.CRASH, "in_flight": None}
            entries.append(RecordEntry(n=len(entries), kind=EntryKind.INTERRUPT, result=crash))
        recorder = self._recorder(stored.header, snapshot, entries, len(stored.entries))
        # Without the model the turn is ending already: a cancellation would end it no sooner.
        return await self._run_to_end(recorder, cancellable=asks_model)

    def _recorder(
        self, header: RecordHeader, snapshot: PolicySnapshot, replayed: Sequence[RecordEntry] = (), saved: int | None = None
    ) -> Recorder:
        """Return a recorder around the real ports; for `replayed` and `saved` see there."""
        return Recorder(
            header,
            snapshot,
            clock=self._setup.ports.clock,
            external=self._setup.external,
            writer=self._writer,
            replayed=replayed,
            saved=saved,
            hooks=self.hooks,
        )

    async def _run_to_end(self, recorder: Recorder, *, cancellable: bool = True) -> FinishedTurn:
        self.hooks.notify(TurnHook.before_turn, recorder.header)
        try:
            finished = await self._drive(recorder, cancellable)
        except BaseException as exc:
            self.hooks.notify(TurnHook.after_turn, exc)
            raise
        self.hooks.notify(TurnHook.after_turn, finished.record)
        return finished

    async def _drive(self, recorder: Recorder, cancellable: bool) -> FinishedTurn:
        """Run the graph in the driver task, and close the record whatever ends it."""
        clock, reserve = self._setup.ports.clock, _reserve(recorder)
        now = clock.monotonic()
        self.deadline = (now if self.arrived_at is None else self.arrived_at) + recorder.snapshot.config.timeout_seconds
        with turn_deadline(clock, self.deadline - reserve):
            driver = asyncio.create_task(self._walk(recorder))
        reason = await self._wait_for(driver, max(0.0, self.deadline - reserve - now), cancellable=cancellable)
        if driver.done() and not driver.cancelled():
            failure = driver.exception()
            if failure is None:
                return await self._close_in(self.deadline - clock.monotonic(), self._close(recorder, self.steps))
            if recorder.saved is None:
                self._close_late_opening(recorder)
            if recorder.saved is None or isinstance(failure, TurnTakenOverError):
                raise _refusal(failure) from failure
            _log.error("a turn ended in an exception", exc_info=failure)
            unavailable = isinstance(failure, RecordUnavailableError)
            reason = InterruptReason.RECORD if unavailable else InterruptReason.FAILURE
        # From here on the driver can neither write nor call anything, whether it obeys its cancellation or not.
        recorder.fence()
        driver.cancel()
        driver.add_done_callback(ignore_result)
        if self.fenced:
            raise TurnTakenOverError("another process may have this turn")
        return await self._interrupt(recorder, reason)

    async def _walk(self, recorder: Recorder) -> None:
        self.hooks.notify(TurnHook.before_node, START)
        async for step in self._setup.walk(recorder):
            self.add_step(step)
            if self.requested is not None:
                await self.requested.acquire()

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
        if recorder.saved is None:
            self._close_late_opening(recorder)
            raise _refusal(RecordUnavailableError("the turn ended before its opening row"))
        # Settling a call in flight gets extra time, so that its outcome does not stay unknown for lack of time.
        seconds = max(_reserve(recorder), _MIN_SECONDS_TO_CLOSE) + self._setup.external.settle_seconds
        # Many turns may reach their deadline together. They are closed in batches, and the time of each begins with
        # its batch; otherwise all of them would wait for each other until their time is over.
        async with self._setup.closing:
            with turn_deadline(self._setup.ports.clock, self._setup.ports.clock.monotonic() + seconds):
                return await self._close_in(seconds, self._close_interrupted(recorder, reason))

    async def _close_interrupted(self, recorder: Recorder, reason: InterruptReason) -> FinishedTurn:
        """Walk the turn over its record to a decision, with `reason` as its last entry, and close it."""
        entries = recorder.ended_by(reason)
        while True:
            again = self._recorder(recorder.header, recorder.snapshot, entries, recorder.saved)
            try:
                steps = [step async for step in self._setup.walk(again)]
                break
            except Exception:
                _log.exception("a turn could not be walked over its record")
                if len(entries) == 1:
                    raise
                # This version cannot walk the whole record: keep what it can walk, or in the end only the interruption.
                again.fence()
                passed = again.ended_by(InterruptReason.CRASH, only_passed=True)
                entries = passed if len(passed) < len(entries) else [passed[-1].replace(n=0)]
        finished = await self._close(again, steps)
        self.add_missing_steps(steps)
        return finished

    async def _close_in(self, seconds: float, close: Coroutine[Any, Any, FinishedTurn]) -> FinishedTurn:
        """Await the closing for `seconds`, two at least. A log that never answers leaves the row to the sweeper."""
        try:
            return await run_with_timeout(max(seconds, _MIN_SECONDS_TO_CLOSE), close)
        except TimeoutError as exc:
            raise outcome_unknown(self.decision_id) from exc

    async def _close(self, recorder: Recorder, steps: Sequence[Step]) -> FinishedTurn:
        """Make the row terminal."""
        record = compose_record(recorder, steps, self._setup.ports.clock.now())
        try:
            return FinishedTurn(await self._writer.close_decision_log(record), steps[-1].turn)
        except RecordUnavailableError as exc:
            raise outcome_unknown(self.decision_id) from exc

    def _close_late_opening(self, recorder: Recorder) -> None:
        """Close the opening row of a turn that was refused because the row was not committed, if it is committed after all."""
        if (opening := recorder.opening) is not None:
            start = TurnStart(resumes=True, asks_model=False)
            late = TurnRun(self._setup, start, PlainSession(), self.decision_id, None)
            late.start(late._finish_opened(opening), self._setup.running)

    async def _finish_opened(self, opening: asyncio.Future[None]) -> FinishedTurn | None:
        await self._wait_for(opening, _LATE_OPENING_SECONDS)
        # Also at a shutdown the write gets some time.
        await asyncio.wait({opening}, timeout=_MIN_SECONDS_TO_CLOSE)
        failure = opening.exception() if opening.done() else None
        if failure is not None and not getattr(failure.__cause__, "unknown", False):
            return None
        for seconds in _LATE_CLOSE_SECONDS if opening.done() else ():
            with suppress(RecordError, ServiceError):
                return await self._finish(self._start)
            if self.cancelled_for is not None:
                break
            await asyncio.sleep(seconds)
        _log.warning("the sweeper will close decision %s, if it was opened", self.decision_id)
        return None


def _refusal(failure: BaseException) -> GraphAgentError:
    if isinstance(failure, TurnTakenOverError):
        return failure
    if isinstance(failure, RecordUnavailableError):
        text = "The request cannot be recorded right now. Please try again later."
        return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)
    _log.error("a turn failed before its opening row", exc_info=failure)
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, "The request cannot be served right now.")


def _reserve(recorder: Recorder) -> float:
    """Return the seconds at a turn's end that are kept for ending it."""
    return min(1.0, recorder.snapshot.config.timeout_seconds / 10)
