"""The interface of the log's writers, and the writer in memory, for engines without a database and for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from graph_agent.errors import RecordUnavailableError, TurnTakenOverError
from graph_agent.models.approval import KnownRequests
from graph_agent.models.canonical import digest
from graph_agent.models.decision import DecisionContext, PendingAction
from graph_agent.models.facts import FactRead, PastUses
from graph_agent.models.mandate import Mandate
from graph_agent.models.record import (
    CallDisposition,
    CallOperation,
    DecisionOpening,
    DecisionRecord,
    EntryKind,
    OpenTurn,
    RecordEntry,
    RecordHeader,
    Reservation,
    ToolInvocation,
)
from graph_agent.models.sources import CallsAround, EarlierCalls, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneDecision
from graph_agent.ports import ConfirmationUse, EndedQuestion

if TYPE_CHECKING:
    # Only named here: it imports SQLAlchemy, which an engine in memory does not need.
    from graph_agent.record.permit import Permit

_SHOWS_FACTS = frozenset({CallDisposition.AWAITING, CallDisposition.WAITS, CallDisposition.REFUSED})
"""The calls about which a question or a reply may have shown facts."""


class AuditWriter(Protocol):
    """The writing side of the log. Every method commits before it returns, or raises `RecordUnavailableError`.

    Derive from this class to inherit `write_closed`, `leave_open` and the two methods that take the fields of a row as keyword
    arguments. A writer that counts the calls and tokens of users, for budgets and limits, sets `counts_uses` and has the three
    methods for it. One that keeps what the tools of a conversation have returned sets `keeps_results` and has `earlier_calls`.
    One that also has the methods about mandates, whose draws `reserve` makes, sets `keeps_mandates`.
    """

    counts_uses: bool = False
    keeps_results: bool = False
    keeps_mandates: bool = False
    permit: Permit | None = None
    """The knowledge of the stops of operators; None for a writer that has no table of them."""

    async def write_opening(self, opening: DecisionOpening) -> None:
        """Insert the opening row.

        Raises `TurnTakenOverError` if the decision already has one, `StoppedError` if an operator has stopped turns,
        `RulesReplacedError` if other rules are activated, and `ConfigurationError` if an engine of your own has other ones.
        """

    async def write_progress(
        self,
        decision_id: str,
        *,
        invocation: ToolInvocation | None = None,
        entries: Sequence[RecordEntry] = (),
        operation: CallOperation | None = None,
    ) -> bool:
        """Store what must be committed before the turn continues, in one commit.

        `entries` has the answers of the model, stored before anything acts on them; `invocation` is a call that was sent, with
        its result. `operation` is the call that is sent next, if it may change something. False if another attempt of the turn
        may have sent it: then it must not be sent. Raises `TurnTakenOverError` if another process has continued the turn,
        and `StoppedError` or `RulesReplacedError` if an operator has stopped the call or activated other rules: then nothing is
        stored.
        """

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        """Make a PENDING row terminal. Return the stored record: this one, or the one that closed the row earlier.

        A call whose commit is not confirmed is repeated with the same record.
        """

    async def write_closed(self, opening: DecisionOpening, record: DecisionRecord) -> DecisionRecord:
        """Store a decision that no turn was started for, closed at once; in one commit if the writer can do that."""
        await self.write_opening(opening)
        return await self.close_decision_log(record)

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        """Return the stored part of a turn: its record if it is closed, None if there is no such turn."""

    def leave_open(self, decision_id: str) -> None:
        """Note that a decision may be open, now or after a late commit, although its run has ended in this process."""
        del decision_id

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        """Return the stored texts among `digests`, by digest."""

    async def past_uses(
        self,
        context: DecisionContext,
        decision_id: str,
        since: datetime | None,
        calls: bool = True,
    ) -> PastUses:
        """Return the uses of the user since this time, and the tools called in the conversation, without this decision.

        Without a time no uses are read, and without `calls` no calls.
        """
        del context, decision_id, since, calls
        raise TypeError(f"{type(self).__name__} does not count uses")

    async def earlier_calls(self, context: DecisionContext, decision_id: str) -> EarlierCalls:
        """Return the calls of the conversation's other decisions, with what the model may have read of them."""
        del context, decision_id
        raise TypeError(f"{type(self).__name__} does not keep results")

    async def newest_result(self, context: DecisionContext, decision_id: str, tools: Sequence[str]) -> tuple[str, Any] | None:
        """Return the tool and the data of the newest success of `tools` in the conversation, without this decision."""
        del context, decision_id, tools
        raise TypeError(f"{type(self).__name__} does not count uses")

    async def used_tokens(self, user_id: str, decision_id: str, since: datetime) -> int:
        """Return the tokens of the user's turns since this time, without those of this decision."""
        del user_id, decision_id, since
        raise TypeError(f"{type(self).__name__} does not count uses")

    async def reserve(
        self,
        decision_id: str,
        reservation: Reservation,
        *,
        entries: Sequence[RecordEntry],
    ) -> tuple[RecordEntry, bool]:
        """Judge and count a call in one commit, with what must precede it. No other call of the user is counted meanwhile.

        Returns the entry of the verdict. False as in `write_progress`.
        """
        del decision_id, reservation, entries
        raise TypeError(f"{type(self).__name__} does not count uses")

    async def mint(self, decision_id: str, mandate: Mandate, *, entries: Sequence[RecordEntry]) -> None:
        """Store a mandate, in one commit with the entries that have its yes."""
        del decision_id, mandate, entries
        raise TypeError(f"{type(self).__name__} keeps no mandates")

    async def open_mandates(self, context: DecisionContext, at: datetime) -> list[Mandate]:
        """Return the mandates that are in force in the conversation at this time, oldest first."""
        del context, at
        raise TypeError(f"{type(self).__name__} keeps no mandates")

    async def void_mandate(self, mandate_id: str, at: datetime) -> None:
        """End a mandate that is open, because other rules are in force."""
        del mandate_id, at
        raise TypeError(f"{type(self).__name__} keeps no mandates")

    async def calls_around(self, context: DecisionContext, decision_id: str, mandate: Mandate) -> CallsAround:
        """Return the calls of the conversation before and since the yes to a plan, without those of `decision_id`."""
        del context, decision_id, mandate
        raise TypeError(f"{type(self).__name__} does not keep results")

    async def claim_undo(
        self,
        decision_id: str,
        operation: CallOperation,
        entry: Callable[[str | None], RecordEntry],
        *,
        entries: Sequence[RecordEntry],
    ) -> tuple[RecordEntry, bool]:
        """Store the operation of a call that undoes another one, in one commit with what must precede it.

        `entry` returns the last entry of the commit, by the decision that has undone it before; None if none has. False as in
        `write_progress`.
        """
        del decision_id, operation, entry, entries
        raise TypeError(f"{type(self).__name__} undoes nothing")

    async def undone_by(self, decision_id: str) -> dict[int, str]:
        """Return the decision that has undone, or may have undone, each of these calls of a decision."""
        del decision_id
        return {}

    async def settled(self, decision_id: str) -> dict[int, ToolResult]:
        """Return the results that were settled after a decision was closed, by the sequence of the call."""
        del decision_id
        return {}

    async def write_decision_log(
        self,
        *,
        decision_id: str,
        conversation_id: str,
        user_id: str,
        message: str,
        intent_type: str = "LLM_PROCESSING",
        decision_type: str = "PENDING",
        outcome_category: str = "PENDING",
        duration_ms: int = 0,
    ) -> None:
        """Insert the opening row; see `write_opening`."""
        await self.write_opening(
            DecisionOpening(
                decision_id=decision_id,
                conversation_id=conversation_id,
                user_id=user_id,
                message=message,
                intent_type=intent_type,
                decision_type=decision_type,
                outcome_category=outcome_category,
                duration_ms=duration_ms,
            )
        )

    async def write_tool_invocation_log(
        self,
        *,
        decision_id: str,
        tool_name: str,
        parameters: dict[str, Any],
        result: Any,
        success: bool,
        error_code: str | None = None,
        error_message: str | None = None,
        duration_ms: int = 0,
        sequence: int = 1,
    ) -> None:
        """Store a call that was sent; see `write_progress`.

        `sequence` counts the calls of the decision from 1.
        """
        invocation = ToolInvocation(
            sequence=sequence,
            tool_name=tool_name,
            parameters=parameters,
            result=result,
            success=success,
            error_code=error_code,
            error_message=error_message,
            duration_ms=duration_ms,
            invoked_at=datetime.now(UTC),
        )
        await self.write_progress(decision_id, invocation=invocation)


def read_calls(record: Mapping[str, Any]) -> list[ReadCall]:
    """Return what a record, as plain JSON, has of servers' texts: in results that were read, and in its question or reply.

    A question shows an object, or the facts of its calls; so does the reply about a call that was refused after the yes. The
    model reads both in its next turn, as an earlier reply.
    """
    entries, invocations = record["entries"], record.get("invocations", ())
    shown = any(entry["kind"] == EntryKind.PREVIEW for entry in entries)
    seen = (CallDisposition.EXECUTED, *([CallDisposition.AWAITING] if shown else []))
    made = [ToolInvocation.model_validate(one) for one in invocations if one["disposition"] in seen]
    agreed = _agreed_calls(record)
    read = [ReadCall(one.tool_name, one.parameters, one.tool_result, one.sequence in agreed) for one in made]
    if any(one["disposition"] in _SHOWS_FACTS for one in invocations):
        facts = [FactRead.recorded(entry["result"]) for entry in entries if entry["kind"] == EntryKind.READ]
        read += [ReadCall(one.tool, one.arguments, ToolResult(success=True, data=one.values)) for one in facts]
    if (undoes := record["header"]["context"].get("undoes")) is not None:
        # Its question shows what is restored.
        restored = [one.restored for one in UndoneDecision.model_validate(undoes).calls if one.restored is not None]
        read += [ReadCall(one.tool, one.arguments, ToolResult(success=True, data=one.before)) for one in restored]
    return read


def _agreed_calls(record: Mapping[str, Any]) -> set[int]:
    """Return the calls that a yes or a line of a mandate has covered, by sequence.

    The operation key of a confirmed call is the id of its question, which the digest of what was sent covers.
    """
    entries, context = record["entries"], record["header"]["context"]
    drawn = {one["operation"] for one in entries if one["kind"] == EntryKind.RESERVE and one["result"].get("mandate")}
    if (given := context.get("pending_confirmation")) is None:
        return drawn
    pending, user = PendingAction.model_validate(given), context["user_id"]
    keys = [digest([one.tool_name, one.arguments, user, pending.operation_key(n)]) for n, one in enumerate(pending.each, 1)]
    sent = (one for one in entries if one["kind"] == EntryKind.EXECUTE and one.get("operation") is not None)
    return drawn | {one["operation"] for one in sent if one["request"] in keys}


class MemoryAuditWriter(AuditWriter):
    """`AuditWriter` in dictionaries, with the rules of the real one. Setting `available` to False makes every write fail."""

    keeps_results = True

    def __init__(self) -> None:
        self.available = True
        self.open: dict[str, RecordHeader] = {}
        self.entries: dict[str, list[RecordEntry]] = {}
        self.invocations: dict[tuple[str, int], ToolInvocation] = {}
        self.operations: dict[tuple[str, int], CallOperation] = {}
        self.records: dict[str, DecisionRecord] = {}
        self.blobs: dict[str, str] = {}

    async def write_opening(self, opening: DecisionOpening) -> None:
        self._require_available()
        decision_id = opening.decision_id
        if decision_id in self.open or decision_id in self.records:
            raise TurnTakenOverError(f"decision {decision_id} was opened before")
        if opening.header is not None:
            self.open[decision_id] = opening.header
        self.blobs.update(opening.texts)

    async def write_progress(
        self,
        decision_id: str,
        *,
        invocation: ToolInvocation | None = None,
        entries: Sequence[RecordEntry] = (),
        operation: CallOperation | None = None,
    ) -> bool:
        self._require_open(decision_id)
        self._append(decision_id, entries)
        if invocation is not None:
            self.invocations[decision_id, invocation.sequence] = invocation
        if operation is None:
            return True
        key = decision_id, operation.sequence
        free = key not in self.operations
        self.operations.setdefault(key, operation)
        return free

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        self._require_available()
        decision_id = record.header.decision_id
        self.open.pop(decision_id, None)
        self.entries.pop(decision_id, None)
        return self.records.setdefault(decision_id, record)

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        self._require_available()
        if decision_id in self.records:
            return self.records[decision_id]
        header = self.open.get(decision_id)
        return None if header is None else OpenTurn(header=header, entries=self.entries.get(decision_id, []))

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        self._require_available()
        return {name: self.blobs[name] for name in digests if name in self.blobs}

    async def claim_undo(
        self,
        decision_id: str,
        operation: CallOperation,
        entry: Callable[[str | None], RecordEntry],
        *,
        entries: Sequence[RecordEntry],
    ) -> tuple[RecordEntry, bool]:
        key, original = (decision_id, operation.sequence), operation.undoes
        others = [found for found, one in self.operations.items() if one.undoes == original and found != key]
        by = next((found[0] for found in others if self._may_be_done(*found)), None)
        last = entry(by)
        stored = None if by is not None else operation
        free = await self.write_progress(decision_id, entries=[*entries, last], operation=stored)
        return last, free

    async def undone_by(self, decision_id: str) -> dict[int, str]:
        self._require_available()
        undone = {one.undoes: found for found, one in self.operations.items() if one.undoes and self._may_be_done(*found)}
        parted = ((*name.rsplit(":", 1), by) for name, (by, _) in undone.items())
        return {int(number): by for decision, number, by in parted if decision == decision_id}

    def _may_be_done(self, decision_id: str, sequence: int) -> bool:
        """True for an operation that was done, or that may be."""
        if (invocation := self.invocations.get((decision_id, sequence))) is not None:
            return invocation.tool_result.may_be_done
        return decision_id in self.open

    async def earlier_calls(self, context: DecisionContext, decision_id: str) -> EarlierCalls:
        self._require_available()
        records = [
            record
            for record in self.records.values()
            if (one := record.header).decision_id != decision_id
            and (one.context.conversation_id, one.context.user_id) == (context.conversation_id, context.user_id)
        ]
        found = [call for record in records for call in read_calls(record.to_json())]
        definitions = sorted({record.header.tools for record in records})
        return EarlierCalls(found, sorted({call.tool_name for call in found}), definitions)

    def _append(self, decision_id: str, entries: Sequence[RecordEntry]) -> None:
        stored = self.entries.setdefault(decision_id, [])
        if entries and entries[0].n < len(stored):
            raise TurnTakenOverError(f"decision {decision_id} was continued by another process")
        stored.extend(entries)

    def _require_open(self, decision_id: str) -> None:
        self._require_available()
        if decision_id in self.records:
            raise TurnTakenOverError(f"decision {decision_id} is closed")

    def _require_available(self) -> None:
        if not self.available:
            raise RecordUnavailableError("the log is not available")


class NoApprovalRequests:
    """`ApprovalRequests` of a process that keeps none, such as one that plays test cases: every request is the first one."""

    async def known(self, call_digest: str, user_id: str, conversation_id: str) -> KnownRequests:
        del call_digest, user_id, conversation_id
        return KnownRequests()


class MemoryConfirmations:
    """`AskedConfirmations` for one process, which has no other front door."""

    def __init__(self) -> None:
        self._used: dict[str, ConfirmationUse] = {}

    async def consume(self, use: ConfirmationUse) -> bool:
        return self._used.setdefault(use.pending.id, use).decision_id == use.decision_id

    async def ask(self, pending: PendingAction, user_id: str, decision_id: str) -> None:
        """Do nothing: the caller keeps the question."""

    async def ended(self, pending_id: str, user_id: str) -> EndedQuestion | None:
        use = self._used.get(pending_id)
        return None if use is None or use.user_id != user_id else EndedQuestion(use.decision_id)
