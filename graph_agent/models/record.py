"""The record of one decision: every answer of a port to the turn, in order, and the result.

A turn's nodes are deterministic but for their ports, so `header` and `entries` are enough to run it again. What many turns
share (settings, constitution, tool schemas, prompts) is stored in blobs, and the header has their digests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import not_
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import AgentDecision, DecisionContext, PendingAction
from graph_agent.models.facts import PastUse
from graph_agent.models.llm import TokenUsage
from graph_agent.models.mandate import Draw, WantedDraw
from graph_agent.models.rule_set import RuleSet
from graph_agent.models.stop import Sending
from graph_agent.models.tools import ContentItem, ToolResult

RECORD_VERSION = 1
"""The version of the format of a record. Records of another version are not replayed."""

NO_MODEL = "none"
"""The model of a decision without one."""

MAX_INTEGER = 2**31 - 1
"""The largest number that an integer column of every database can have: the milliseconds of 24 days."""


FACT_READS = 1_000_000
"""The reads that the runtime makes for facts are numbered from here on, so that none has the number of a call."""


class EntryKind(StrEnum):
    """The port that was called, or INTERRUPT if the turn was ended by its deadline, a cancellation or a failure."""

    CLOCK = "clock"
    ID = "id"
    SIGN = "sign"
    VERIFY = "verify"
    RULES = "rules"
    CONSUME = "consume"
    FACTS = "facts"
    KNOWN_REQUESTS = "known_requests"
    MANDATE = "mandate"
    MINT = "mint"
    PLAN = "plan"
    RESERVE = "reserve"
    SOURCES = "sources"
    UNDO = "undo"
    MODEL = "model"
    PREVIEW = "preview"
    READ = "read"
    EXECUTE = "execute"
    SETTLE = "settle"
    INTERRUPT = "interrupt"


class InterruptReason(StrEnum):
    """The reason why a turn was interrupted."""

    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    CRASH = "crash"
    """Its process died; it is not known which call was running."""
    FAILURE = "failure"
    """An unexpected exception in this process."""
    RECORD = "record"
    """The database became unavailable during the turn."""
    RESENT = "resent"
    """An earlier attempt of the turn may have sent a call without a ledger: it is not sent again."""
    STOPPED = "stopped"
    """An operator has stopped what the turn was about to do."""
    RULES = "rules"
    """Other rules were put in force than those of the turn."""


class RecordEntry(Frozen):
    """One call to a port and its answer. `request` is a digest.

    `ms` is how long it took, `at` when a tool call was sent; both stay out of state.
    """

    n: int = Field(ge=0)
    kind: EntryKind
    request: str | None = None
    result: Any = None
    ms: int = Field(default=0, ge=0)
    at: UtcDatetime | None = None
    # Left out of the JSON of all other entries.
    operation: int | None = Field(default=None, ge=1, exclude_if=not_)
    """The number of the call whose operation is stored: of a permitted reservation or undo, and of a change that was sent."""


SNAPSHOT_TEXTS = ("constitution", "tools", "settings", "prompt")
LATER_TEXTS = ("conditions", "gates")
"""The texts that not every record has."""
"""The texts of every policy snapshot; a header has the digest of each."""


class RecordHeader(Frozen):
    """The start of a turn: its input and the digests of its policy snapshot."""

    version: int = RECORD_VERSION
    decision_id: str
    context: DecisionContext
    started_at: UtcDatetime
    model: str
    constitution: str
    """Digest of the constitution's text."""
    tools: str
    """Digest of the tools' declarations and traits."""
    settings: str
    """Digest of the engine's settings."""
    prompt: str
    """Digest of the system prompt: the constitution's text, unless the caller gave another prompt."""
    # Left out of the JSON if there are none.
    conditions: str | None = Field(default=None, exclude_if=not_)
    """Digest of the conditions, with the schema that was generated for them."""
    gates: str | None = Field(default=None, exclude_if=not_)
    """Digest of the names of the gates in their order, which is that of the evidence in the record."""
    rules: str | None = Field(default=None, exclude_if=not_)
    """Digest of the rule set that was in force; None for an engine of your own."""

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the texts, by the name of the text."""
        found = {name: getattr(self, name) for name in (*SNAPSHOT_TEXTS, *LATER_TEXTS)}
        return {name: text for name, text in found.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOpening:
    """The opening row of a decision, committed before the first model call."""

    decision_id: str
    conversation_id: str
    user_id: str
    message: str
    intent_type: str = "LLM_PROCESSING"
    decision_type: str = "PENDING"
    outcome_category: str = "PENDING"
    duration_ms: int = 0
    header: RecordHeader | None = None
    """None for a row that is written by hand: such a turn cannot be resumed."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts that the header names, by digest; each is stored once."""
    rule_set: RuleSet | None = None
    """The rule set that the header names, which is in force from this row on. None for an engine of your own."""

    @classmethod
    def of(cls, header: RecordHeader, texts: Mapping[str, str], rule_set: RuleSet | None = None) -> Self:
        """Return the opening row of the turn that starts from `header`."""
        context = header.context
        return cls(
            decision_id=header.decision_id,
            conversation_id=context.conversation_id,
            user_id=context.user_id,
            message=context.message,
            header=header,
            texts=texts,
            rule_set=rule_set,
        )


class OpenTurn(Frozen):
    """The stored part of a turn that has no terminal row yet."""

    header: RecordHeader
    entries: list[RecordEntry]
    sealed: bool = True
    """False if the opening row has no valid seal: it was added or changed by hand, and must not be continued or closed."""


class RecordStatus(StrEnum):
    """The status of a log row: PENDING, then exactly one of the others."""

    PENDING = "PENDING"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


class CallDisposition(StrEnum):
    """The fate of a call that was requested: what the guard decides, and what the record says."""

    EXECUTED = "executed"
    """The call was sent to its server; in a verdict: it may be sent."""
    REFUSED = "refused"
    """The guard refused the call; it was not sent."""
    REPEATED = "repeated"
    """An identical call that is no read may have run before in the turn. The call got its result; it was not sent again."""
    AWAITING = "awaiting"
    """The call waits for the confirmation of the user: it needs it, or may change something and comes after one that does."""
    WAITS = "waits"
    """The call waits for the approval of other people, and has the confirmation of the user if it needs that too."""
    SKIPPED = "skipped"
    """The call was not sent: its batch had ended, or it is a read, or the same call, after one that waits for the user."""


class ShadowVerdict(Frozen):
    """The decision of a rule in the shadow on a call, where it would have changed the one that was made."""

    rule: str
    """The name of the rule: its `@id`, or its line."""
    decision: Literal["asks", "waits", "refused", "unknown"]
    """`unknown` only in a what-if replay: the record does not have what the rule reads."""


class ShadowedCall(NamedTuple):
    """A call about which rules in the shadow have a verdict."""

    sequence: int
    tool_name: str
    call: str
    """The tool and the arguments, as text."""
    verdicts: Sequence[tuple[str, str]]
    """Name of the rule, and its decision."""

    @classmethod
    def of(cls, sequence: int, tool_name: str, arguments: dict[str, Any], shadow: Sequence[ShadowVerdict]) -> ShadowedCall:
        verdicts = [(one.rule, one.decision) for one in shadow]
        return cls(sequence, tool_name, f"{tool_name} {canonical_json(arguments)}", verdicts)


class ToolInvocation(Frozen):
    """One row of `ToolInvocationLog`: a call that was executed, refused, repeated, skipped, or that awaits confirmation."""

    sequence: int = Field(ge=1)
    tool_name: str
    parameters: dict[str, Any]
    disposition: CallDisposition = CallDisposition.EXECUTED
    result: Any = None
    success: bool
    error_code: str | None = None
    error_message: str | None = None
    duration_ms: int = Field(default=0, ge=0)
    invoked_at: UtcDatetime
    # Left out of the JSON if it is empty, as in most results.
    content: list[ContentItem] = Field(default_factory=list, exclude_if=not_)
    """The parts of which the answer of an MCP server consisted."""
    # As above.
    shadow: tuple[ShadowVerdict, ...] = Field(default=(), exclude_if=not_)
    """The rules in the shadow that would have changed the decision on the call."""

    # As above.
    gate: str | None = Field(default=None, exclude_if=not_)
    """The gate that stopped the call; None for a call that has passed all of them."""

    @field_validator("shadow", mode="before")
    @classmethod
    def _none_in_a_row(cls, value: Any) -> Any:
        return () if value is None else value

    @property
    def tool_result(self) -> ToolResult:
        """The result of the call."""
        code = None if self.error_code is None else ToolErrorCode(self.error_code)
        return ToolResult(
            success=self.success, data=self.result, error=self.error_message, error_code=code, content=self.content
        )


class OperationState(StrEnum):
    """The state of an operation: a call that may change something."""

    INTENDED = "intended"
    """It may be sent now, or was sent and has no outcome yet."""
    DONE = "done"
    VOID = "void"
    """It failed for certain, or was not sent."""
    UNKNOWN = "unknown"


class CallOperation(NamedTuple):
    """A call that may change something and is about to be sent."""

    sequence: int
    operation_key: str
    user_id: str
    tool_name: str
    amounts: Mapping[str, int | str] | None = None
    """The amounts that count, as in `PastUse`; None if it is not counted."""
    request: str | None = None
    """The digest of exactly what is sent, if it may be sent again; see `AuthorizedCall.request`."""
    undoes: str | None = None
    """The operation that it undoes, as DECISION:NUMBER."""
    server: str = ""
    """The server of the tool, if there are several."""
    changes: bool = True
    """False for a read, which has an operation if conditions count it."""
    rules: str | None = None
    """The digest of the rule set of its decision; None for an engine of your own."""

    @property
    def sending(self) -> Sending:
        """The call as stops know it."""
        return Sending(self.user_id, self.tool_name, self.server, self.changes)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A call that is judged again in the transaction that counts it."""

    operation: CallOperation
    at: datetime
    since: datetime
    """The earlier uses of the user since this time decide."""
    judge: Callable[[Sequence[PastUse], Draw | None], tuple[RecordEntry, bool]]
    """Returns the entry of the verdict, and True if the call may be sent. It may be called more than once.

    Without a draw the call has no yes from a mandate.
    """
    wanted: WantedDraw | None = None
    """The draw that is made in the same transaction, if the rules permit the call with it."""


class DecisionRecord(Frozen):
    """The whole record of a closed turn. Its canonical JSON is the text that is stored, exported, sealed and replayed."""

    header: RecordHeader
    entries: list[RecordEntry]
    status: RecordStatus
    states: list[str]
    # Left out of the JSON if there are none, as for a message that was refused before the graph ran.
    state_ends_us: list[int] = Field(default_factory=list, exclude_if=not_)
    """The time when each of `states` ended, in microseconds after the turn began; some states take less than a millisecond."""
    iterations: int = Field(ge=0)
    usage: TokenUsage | None = None
    decision: AgentDecision
    invocations: list[ToolInvocation] = Field(default_factory=list)
    ended_at: UtcDatetime
    duration_ms: int = Field(ge=0)

    @property
    def answered(self) -> PendingAction | None:
        """The action that was confirmed or declined in the turn, or whose approval has ended with it; None if there is none."""
        context = self.header.context
        if context.approval is not None:
            return context.approval.request.action
        used = any(entry.kind is EntryKind.CONSUME and entry.result for entry in self.entries)
        # A message that is neither yes nor no ends the question, too: then the model is asked.
        return context.pending_confirmation if used and "INVOKE_LLM" not in self.states[1:2] else None

    @property
    def shadowed(self) -> list[ShadowedCall]:
        """The calls about which rules in the shadow have a verdict."""
        calls = self.invocations
        return [ShadowedCall.of(one.sequence, one.tool_name, one.parameters, one.shadow) for one in calls if one.shadow]
