"""The record of one decision: everything the outside told the turn, in order, and what came of it.

A turn's nodes are deterministic but for their ports, so `header` and `entries` are enough to run it again. What many turns
share (settings, constitution, tool schemas, prompts) stands in blobs and is named by digest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import AgentDecision, DecisionContext
from graph_agent.models.llm import TokenUsage

RECORD_VERSION = 1


class EntryKind(StrEnum):
    """Which port was asked, or what ended the turn from outside."""

    CLOCK = "clock"
    ID = "id"
    SIGN = "sign"
    VERIFY = "verify"
    CONSUME = "consume"
    MODEL = "model"
    PREVIEW = "preview"
    EXECUTE = "execute"
    SETTLE = "settle"
    INTERRUPT = "interrupt"


class InterruptReason(StrEnum):
    """What ends a turn that does not end by itself."""

    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    CRASH = "crash"
    """Found later: nobody knows what was under way."""
    FAILURE = "failure"
    """An exception nobody expected, in this process."""
    RECORD = "record"
    """The log database stopped taking rows in mid-turn."""


class RecordEntry(Frozen):
    """One question to a port and its answer. `request` is a digest.

    `ms` is how long it took, `at` when a tool call was sent; both stay out of state.
    """

    n: int = Field(ge=0)
    kind: EntryKind
    request: str | None = None
    result: Any = None
    ms: int = Field(default=0, ge=0)
    at: UtcDatetime | None = None


class RecordHeader(Frozen):
    """What a turn started from."""

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
    """Digest of the system prompt; the constitution's own unless another one was given."""


class OpenTurn(Frozen):
    """A turn that has begun and has no terminal row yet: what stands of it in the record."""

    header: RecordHeader
    entries: list[RecordEntry]


class RecordStatus(StrEnum):
    """PENDING, then exactly one of the others."""

    PENDING = "PENDING"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


class CallDisposition(StrEnum):
    """What became of a call the model asked for."""

    EXECUTED = "executed"
    REFUSED = "refused"
    REPEATED = "repeated"
    AWAITING = "awaiting"
    SKIPPED = "skipped"


class ToolInvocation(Frozen):
    """One row of `ToolInvocationLog`: a call attempted, refused, repeated, held or skipped."""

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


class DecisionRecord(Frozen):
    """The whole record of a closed turn. Its canonical JSON is the text that is stored, exported, chained and replayed."""

    header: RecordHeader
    entries: list[RecordEntry]
    status: RecordStatus
    states: list[str]
    iterations: int = Field(ge=0)
    usage: TokenUsage | None = None
    decision: AgentDecision
    invocations: list[ToolInvocation] = Field(default_factory=list)
    ended_at: UtcDatetime
    duration_ms: int = Field(ge=0)
