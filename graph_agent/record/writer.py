"""The writing side of the record: `AuditWriter` on SQLAlchemy Core."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self, TypeVar

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from graph_agent.clock import SystemClock
from graph_agent.db import (
    Database,
    DatabaseUnavailableError,
    PreparedStatement,
    closing_writes,
    insert_new,
    insert_or_replace,
    read_pages,
)
from graph_agent.errors import RecordUnavailableError, TurnTakenOverError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import DecisionContext
from graph_agent.models.facts import PastUses
from graph_agent.models.mandate import Mandate
from graph_agent.models.record import (
    CallOperation,
    DecisionOpening,
    DecisionRecord,
    EntryKind,
    OpenTurn,
    RecordEntry,
    RecordHeader,
    RecordStatus,
    Reservation,
    ToolInvocation,
)
from graph_agent.models.sources import CallsAround, EarlierCalls
from graph_agent.models.stop import Sending
from graph_agent.models.tools import ToolResult
from graph_agent.ports import Clock
from graph_agent.record import operations, projection
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.record.blobs import TOUCH_EVERY, store_texts
from graph_agent.record.calls_without_model import find_called_without_model
from graph_agent.record.earlier_results import find_around, find_results
from graph_agent.record.mandates import draw, find_open, mint, void
from graph_agent.record.metrics_hours import LONGEST_TURN, forget_hours
from graph_agent.record.permit import Permit
from graph_agent.record.rule_sets import open_under_rules
from graph_agent.record.rules_head import find_head, require_above_floor
from graph_agent.record.settlements import UnknownOutcomes, settlements_of
from graph_agent.record.tables import decision_logs, record_blobs, record_entries, tool_invocation_logs
from graph_agent.record.tree.leaves import OPENING_COLUMNS, RecordKey, Sealer, new_leaf
from graph_agent.record.tree.tables import LeafKind

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_LEFT_OPEN = 100
"""The decisions that a process remembers as left open. Most of them were never stored, and stay remembered."""
_OPEN_PAGE = 100
"""The open decisions that are read at a time."""
_OPEN_KEY = decision_logs.c.created_at, decision_logs.c.decision_id
_SEALED_WITHOUT_KEY = [decision_logs.c[name] for name in OPENING_COLUMNS if name not in ("created_at", "decision_id")]

_BY_ID = decision_logs.c.decision_id == bindparam("decision")
_IS_PENDING = decision_logs.c.status == RecordStatus.PENDING
_OPEN = PreparedStatement(insert(decision_logs))
_ENTRY = PreparedStatement(insert(record_entries))
_ADD_TOKENS = PreparedStatement(
    update(decision_logs)
    .where(_BY_ID)
    .values(total_tokens=func.coalesce(decision_logs.c.total_tokens, 0) + bindparam("tokens"))
)
# Locked, so that on PostgreSQL another process can neither close nor continue the row before this transaction ends. Not FOR
# SHARE: the commit may add tokens to the row, and two shared locks that become exclusive wait for each other. SQLite has one
# writer.
_STILL_OPEN = PreparedStatement(select(decision_logs.c.decision_id).where(_BY_ID, _IS_PENDING).with_for_update(key_share=True))
_STORED_DECISION = select(*decision_logs.c[OPENING_COLUMNS], decision_logs.c.record).where(_BY_ID)
_STORED_ENTRIES = (
    select(record_entries.c.entry).where(record_entries.c.decision_id == bindparam("decision")).order_by(record_entries.c.n)
)
# The seal makes sure that the row was opened with the header of this record, by a process that has the key.
_CLOSE = PreparedStatement(update(decision_logs).where(_BY_ID, _IS_PENDING, decision_logs.c.opening_seal == bindparam("seal")))
_DELETE_ENTRIES = PreparedStatement(delete(record_entries).where(record_entries.c.decision_id == bindparam("decision")))


class OpenDecision(NamedTuple):
    """A decision that is not closed."""

    decision_id: str
    user_id: str


class RecordedTurn:
    """The state of a turn that is kept beside its record, in the same database, and changes in the same commits: none here.

    Locks are taken in this order everywhere: turn, question or approval request, decision, entries, message, conversation.
    """

    attempt: int = 1
    """The number of the attempt that this process has."""
    claimed: bool = False
    """True if a claim keeps other processes from the turn."""

    def begin_append(self, connection: Connection, decision_id: str) -> None:
        """Begin a transaction that appends entries. Raises `TurnTakenOverError` unless this process has the turn."""
        if _STILL_OPEN.first(connection, {"decision": decision_id}) is None:
            # The record of a closed row would not contain what the turn does now.
            raise TurnTakenOverError(f"decision {decision_id} is closed")

    def begin_close(self, connection: Connection, record: DecisionRecord) -> bool:
        """Begin the closing transaction; False if the turn is closed already. Raises `TurnTakenOverError` like the other."""
        del connection, record
        return True

    def end_close(self, connection: Connection, record: DecisionRecord) -> None:
        """Store what follows from the closed record."""


def _continued(decision_id: str) -> str:
    return f"decision {decision_id} was continued by another process"


class DatabaseAuditWriter(AuditWriter):
    """Writes decisions to the database; every method is one transaction."""

    counts_uses = True
    keeps_results = True
    keeps_mandates = True
    permit: Permit
    """The knowledge of this process of the stops, which forbid to intend and to send calls."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock | None = None,
        record_key: RecordKey = None,
        turn: RecordedTurn | None = None,
        unknown: UnknownOutcomes | None = None,
    ) -> None:
        """`record_key` makes the MACs of rows that are not in the tree yet; without one they are plain hashes.

        `turn` takes part in the transactions of turns that have no other state beside their record. `unknown` makes it due to
        learn unknown outcomes.
        """
        self.database = database
        self._clock = clock or SystemClock()
        self.record_key = record_key
        self._sealer = Sealer(record_key)
        self.permit = Permit(database, self._sealer)
        self.closed = asyncio.Event()
        """Set when a decision was closed, which the tree then waits for."""
        self._unknown = unknown
        self._touched: dict[str, datetime] = {}
        self._left_open: dict[str, DecisionOpening | None] = {}
        self._loaded: dict[str, int] = {}
        """The stored entries that this process knows of decisions that another one may still run."""
        self._turn = turn or RecordedTurn()

    def joined_with(self, turn: RecordedTurn) -> Self:
        """Return a writer for one turn, which checks and changes `turn` in each of its transactions."""
        writer = copy.copy(self)
        writer._turn = turn
        return writer

    async def write_opening(self, opening: DecisionOpening) -> None:
        def open_unless_stopped(connection: Connection) -> None:
            self.permit.require_none(connection, Sending(opening.user_id))
            self.open(connection, opening)

        await self._write(open_unless_stopped, f"decision {opening.decision_id} was opened before")
        self.remember_texts(opening)

    async def write_closed(self, opening: DecisionOpening, record: DecisionRecord) -> DecisionRecord:
        stored = await self._close(record, opening)
        self.remember_texts(opening)
        return stored

    def open(self, connection: Connection, opening: DecisionOpening) -> None:
        """Insert the opening row and its texts, in a transaction of the caller, who calls `remember_texts` after the commit."""
        header = opening.header
        started_at = header.started_at if header else self._clock.now()
        row: dict[str, Any] = {
            "decision_id": opening.decision_id,
            "conversation_id": opening.conversation_id,
            "user_id": opening.user_id,
            "message": opening.message,
            "intent_type": opening.intent_type,
            "decision_type": opening.decision_type,
            "outcome_category": opening.outcome_category,
            "category": opening.outcome_category.partition(":")[0],
            "created_at": started_at,
            "duration_ms": opening.duration_ms,
            "status": RecordStatus.PENDING,
            "model": header.model if header else None,
            "constitution": header.constitution if header else None,
            "header": canonical_json(header.to_json()) if header else None,
        }
        row["opening_seal"] = self._sealer.opening_seals(row)[0]
        open_under_rules(connection, opening, started_at, self._sealer)
        _OPEN.run(connection, row)
        self._forget_hours_if_late(connection, opening.decision_id, started_at)
        # Other decisions share these rows, so they are locked last.
        stale = {name: text for name, text in opening.texts.items() if not self._is_fresh(name, started_at)}
        store_texts(connection, stale, started_at)

    def remember_texts(self, opening: DecisionOpening) -> None:
        """Remember that the texts of `opening` are stored."""
        started_at = opening.header.started_at if opening.header else self._clock.now()
        self._touched.update((name, started_at) for name in opening.texts if not self._is_fresh(name, started_at))

    async def write_progress(
        self,
        decision_id: str,
        *,
        invocation: ToolInvocation | None = None,
        entries: Sequence[RecordEntry] = (),
        operation: CallOperation | None = None,
    ) -> bool:
        invocations = [] if invocation is None else [projection.invocation_row(decision_id, invocation.to_json())]
        now = self._clock.now()

        def append_all(connection: Connection) -> bool:
            attempt = self._begin_append(connection, decision_id)
            # One commit: an entry without its call, or a call that is sent without its operation, could not be resumed.
            if invocation is not None:
                insert_new(connection, tool_invocation_logs, invocations)
                operations.settle(connection, decision_id, [invocation])
            _append(connection, decision_id, entries)
            if operation is None:
                return True
            self._require_permitted(connection, decision_id, operation)
            return operations.intend(connection, decision_id, attempt, operation, now, self._sealer)

        free = await self._write(append_all, _continued(decision_id))
        self._has_stored(decision_id, len(entries))
        return free

    async def reserve(
        self, decision_id: str, reservation: Reservation, *, entries: Sequence[RecordEntry]
    ) -> tuple[RecordEntry, bool]:
        operation = reservation.operation

        def reserve_and_append(connection: Connection) -> tuple[RecordEntry, bool]:
            attempt = self._begin_append(connection, decision_id)
            # Before the lock of the uses, as everywhere: a stop or an activation may wait between the two.
            self._require_permitted(connection, decision_id, operation)
            # Before the uses are read, so that no other call of this user is counted between the verdict and its commit.
            operations.lock_uses(connection, operation.user_id)
            past = operations.find_uses(connection, operation.user_id, reservation.since, without=decision_id)
            at, sealer, wanted, drawn = reservation.at, self._sealer, reservation.wanted, None
            if wanted is not None:
                # Only a call that the rules permit with the yes of the mandate takes one of its draws.
                with connection.begin_nested() as attempt_to_draw:
                    drawn = draw(connection, wanted, operation, decision_id, at, sealer)
                    if not reservation.judge(past, drawn)[1]:
                        attempt_to_draw.rollback()
                        drawn = None
            verdict, runs = reservation.judge(past, drawn)
            _append(connection, decision_id, [*entries, verdict])
            return verdict, not runs or operations.intend(connection, decision_id, attempt, operation, at, sealer)

        verdict, free = await self._write(reserve_and_append, _continued(decision_id))
        self._has_stored(decision_id, len(entries) + 1)
        return verdict, free

    async def claim_undo(
        self,
        decision_id: str,
        operation: CallOperation,
        entry: Callable[[str | None], RecordEntry],
        *,
        entries: Sequence[RecordEntry],
    ) -> tuple[RecordEntry, bool]:
        now = self._clock.now()

        def claim_and_append(connection: Connection) -> tuple[RecordEntry, bool]:
            attempt = self._begin_append(connection, decision_id)
            self._require_permitted(connection, decision_id, operation)
            # The unique index lets one transaction insert such a row; another one waits here for its end.
            free, by = operations.claim_undo(connection, decision_id, attempt, operation, now, self._sealer)
            last = entry(by)
            _append(connection, decision_id, [*entries, last])
            return last, free

        last, free = await self._write(claim_and_append, _continued(decision_id))
        self._has_stored(decision_id, len(entries) + 1)
        return last, free

    async def mint(self, decision_id: str, mandate: Mandate, *, entries: Sequence[RecordEntry]) -> None:
        def append_and_mint(connection: Connection) -> None:
            self._begin_append(connection, decision_id)
            _append(connection, decision_id, entries)
            mint(connection, mandate, self.database.time(), self._sealer)

        await self._write(append_and_mint, _continued(decision_id))
        self._has_stored(decision_id, len(entries))

    async def open_mandates(self, context: DecisionContext, at: datetime) -> list[Mandate]:
        user, conversation = context.user_id, context.conversation_id
        return await self._read(lambda connection: find_open(connection, user, conversation, at, self._sealer, context.job))

    async def void_mandate(self, mandate_id: str, at: datetime) -> None:
        await self._write(lambda connection: void(connection, at, mandate_id), "the mandate has ended")

    async def calls_around(self, context: DecisionContext, decision_id: str, mandate: Mandate) -> CallsAround:
        user, conversation = context.user_id, context.conversation_id
        return await self._read(lambda connection: find_around(connection, user, conversation, decision_id, mandate))

    async def undone_by(self, decision_id: str) -> dict[int, str]:
        found = await self._read(lambda connection: operations.undone_by(connection, decision_id))
        return {number: by for number, (by, _) in found.items()}

    async def settled(self, decision_id: str) -> dict[int, ToolResult]:
        found = await self._read(lambda connection: settlements_of(connection, decision_id))
        return {settlement.sequence: settlement.result for settlement in found}

    def _has_stored(self, decision_id: str, entries: int) -> None:
        if decision_id in self._loaded:
            self._loaded[decision_id] += entries

    async def used_tokens(self, user_id: str, decision_id: str, since: datetime) -> int:
        return await self._read(lambda connection: operations.find_tokens(connection, user_id, since, without=decision_id))

    async def newest_result(self, context: DecisionContext, decision_id: str, tools: Sequence[str]) -> tuple[str, Any] | None:
        user, conversation = context.user_id, context.conversation_id
        return await self._read(lambda connection: operations.find_newest(connection, user, conversation, tools, decision_id))

    async def past_uses(
        self, context: DecisionContext, decision_id: str, since: datetime | None, calls: bool = True
    ) -> PastUses:
        user, conversation = context.user_id, context.conversation_id

        def read_uses(connection: Connection) -> PastUses:
            uses = [] if since is None else operations.find_uses(connection, user, since, without=decision_id)
            if not calls:
                return PastUses(uses, (), ())
            succeeded, attempted = operations.find_calls(connection, user, conversation, without=decision_id)
            elsewhere = find_called_without_model(connection, user, conversation, self._clock.now(), without=decision_id)
            return PastUses(uses, succeeded, sorted(elsewhere.union(attempted)))

        return await self._read(read_uses)

    async def earlier_calls(self, context: DecisionContext, decision_id: str) -> EarlierCalls:
        user, conversation = context.user_id, context.conversation_id

        def read_earlier(connection: Connection) -> EarlierCalls:
            results, definitions = find_results(connection, user, conversation, without=decision_id)
            _, attempted = operations.find_calls(connection, user, conversation, without=decision_id)
            elsewhere = find_called_without_model(connection, user, conversation, self._clock.now(), without=decision_id)
            return EarlierCalls(results, sorted(elsewhere.union(attempted)), definitions)

        return await self._read(read_earlier)

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        return await self._close(record)

    async def _close(self, record: DecisionRecord, opening: DecisionOpening | None = None) -> DecisionRecord:
        """Close the row, which is inserted first if `opening` is given."""
        turn = self._turn
        decision_id = record.header.decision_id
        plain = record.to_json()
        text = canonical_json(plain)
        columns = projection.terminal_columns(plain)
        invocations = projection.invocation_rows(plain)
        seals = self._sealer.opening_seals(projection.opening_columns(plain))
        leaf = new_leaf(LeafKind.DECISION, decision_id, text, self._sealer)
        values = {"decision": decision_id, **columns, "record": text, "salt": leaf.salt}

        def close_row(connection: Connection) -> str:
            if opening is not None:
                self.open(connection, opening)
            begun = turn.begin_close(connection, record)
            stored = text
            # The update of the open row comes first: of two processes that close it, the second one changes nothing.
            if begun and any(_CLOSE.run(connection, {**values, "seal": seal}) for seal in seals):
                insert_or_replace(connection, tool_invocation_logs, invocations)
                operations.close(connection, record)
                if self._unknown is not None:
                    self._unknown.put(connection, record)
                deleted = _DELETE_ENTRIES.run(connection, {"decision": decision_id})
                if not turn.claimed and deleted > self._loaded.get(decision_id, deleted):
                    # Of a process that runs it, which only its age by a wrong clock made look abandoned.
                    raise TurnTakenOverError(_continued(decision_id))
                leaf.store(connection)
                self._forget_hours_if_late(connection, decision_id, record.header.started_at)
            else:
                stored = _stored_record(connection, decision_id)
            if begun:
                # Also for a row that an engine without this session has closed: what follows is stored now.
                turn.end_close(connection, record)
            return stored

        # Ahead of the writes of running turns: the user waits for this one, and the lease may expire meanwhile.
        with closing_writes():
            stored_text = await self._write(close_row, f"decision {decision_id} was closed by another process")
        self._loaded.pop(decision_id, None)
        self.closed.set()
        return record if stored_text is text else DecisionRecord.model_validate_json(stored_text)

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        def read_row_and_entries(connection: Connection) -> tuple[Any, Sequence[Any]]:
            row = connection.execute(_STORED_DECISION, {"decision": decision_id}).one_or_none()
            return row, connection.execute(_STORED_ENTRIES, {"decision": decision_id}).scalars().all()

        row, entries = await self._read(read_row_and_entries)
        if row is None:
            return None
        # Who loads it closes it, or leaves it open again.
        self._left_open.pop(decision_id, None)
        if row.record is not None:
            return DecisionRecord.model_validate_json(row.record)
        if row.header is None:
            return None
        self._loaded[decision_id] = len(entries)
        return OpenTurn(
            header=RecordHeader.model_validate_json(row.header),
            entries=[RecordEntry.model_validate(entry) for entry in entries],
            sealed=self._is_sealed(row),
        )

    def leave_open(self, decision_id: str, opening: DecisionOpening | None = None) -> None:
        """Remember that a decision no longer runs; with `opening`, only if that was committed, and no other one.

        It is left open because the database does not answer. So nothing can be stored about it now: the chat service of this
        process makes it due to be closed, or that of another one, once it is old enough.
        """
        self._left_open[decision_id] = opening
        if len(self._left_open) > _MAX_LEFT_OPEN:
            # It is closed later, when it is old enough.
            del self._left_open[next(iter(self._left_open))]

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        wanted = select(record_blobs.c.digest, record_blobs.c.text).where(record_blobs.c.digest.in_(list(digests)))
        return await self._read(lambda connection: {row.digest: row.text for row in connection.execute(wanted)})

    async def open_decisions(self, age: timedelta) -> AsyncGenerator[list[OpenDecision]]:
        """Yield the decisions that are still PENDING in pages, oldest first: those whose run has ended in this process, and all
        others of at least this age by the database's clock.

        Rows without a valid seal are left out: they are not closed, and `log verify` reports them.
        """
        old = decision_logs.c.created_at <= self.database.time(-age)
        left = [name for name, opening in self._left_open.items() if opening is None]
        unconfirmed = [
            and_(decision_logs.c.decision_id == name, decision_logs.c.header == canonical_json(opening.header.to_json()))
            for name, opening in self._left_open.items()
            if opening is not None and opening.header is not None
        ]
        abandoned = or_(old, decision_logs.c.decision_id.in_(left), *unconfirmed)
        wanted = select(*_OPEN_KEY, *_SEALED_WITHOUT_KEY).where(_IS_PENDING, abandoned)
        async for rows in read_pages(self._read, wanted, *_OPEN_KEY, size=_OPEN_PAGE):
            yield [OpenDecision(row.decision_id, row.user_id) for row in rows if self._is_sealed(row)]

    def _forget_hours_if_late(self, connection: Connection, decision_id: str, started_at: datetime) -> None:
        if self._clock.now() - started_at > LONGEST_TURN:
            forget_hours(connection, lambda column: column == decision_id)

    def _is_sealed(self, row: Any) -> bool:
        return self._sealer.has_sealed(row._asdict())

    def _is_fresh(self, name: str, at: datetime) -> bool:
        """Return True if this process has recently stored the text or marked it as used."""
        touched = self._touched.get(name)
        return touched is not None and at - touched < TOUCH_EVERY

    def _begin_append(self, connection: Connection, decision_id: str) -> int:
        """Begin a transaction that continues a turn; return the number of the attempt."""
        self._turn.begin_append(connection, decision_id)
        return self._turn.attempt

    def _require_permitted(self, connection: Connection, decision_id: str, operation: CallOperation) -> None:
        """Raise `StoppedError` or `RulesReplacedError` if a call must not be intended."""
        # It takes the lock that a stop and an activation take alone, so that the rules are read under it too.
        self.permit.require_none(connection, operation.sending, locked=True)
        require_above_floor(connection, find_head(connection, self._sealer), decision_id, operation)

    async def _write(self, work: Callable[[Connection], T], conflict: str) -> T:
        try:
            return await self.database.write(work)
        except IntegrityError as exc:
            raise TurnTakenOverError(conflict) from exc
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the database did not store the row") from exc

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self.database.read(work)
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the database does not answer") from exc


def _entry_row(decision_id: str, entry: RecordEntry) -> dict[str, Any]:
    return {"decision_id": decision_id, "n": entry.n, "entry": entry.to_json()}


def _append(connection: Connection, decision_id: str, entries: Sequence[RecordEntry]) -> None:
    _ENTRY.run_for_each(connection, [_entry_row(decision_id, entry) for entry in entries])
    usage = [entry.result["usage"] or {} for entry in entries if entry.kind is EntryKind.MODEL]
    if tokens := sum(one.get("total_tokens", 0) for one in usage):
        # They count towards the limit of the user's day while the turn runs; the closed row has the sum of the record.
        _ADD_TOKENS.run(connection, {"decision": decision_id, "tokens": tokens})


def _stored_record(connection: Connection, decision_id: str) -> str:
    """Return the record of a closed decision. Raises `TurnTakenOverError` if there is none."""
    stored = connection.execute(_STORED_DECISION, {"decision": decision_id}).one_or_none()
    if stored is None or stored.record is None:
        raise TurnTakenOverError(f"decision {decision_id} has no opening row")
    return str(stored.record)
