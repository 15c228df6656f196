"""What the runtime needs from outside, one job each.

A port ships with its fake: `ScriptedAdapter` for `LLMAdapter`, `ManualClock` and `SequentialIds` in `clock.py`. `TurnPorts` is
the one the graph's nodes see; the recorder implements it around all the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable

from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, ToolDeclaration
from graph_agent.models.record import DecisionRecord, OpenTurn, RecordEntry, RecordHeader
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.guard import AuthorizedCall

T = TypeVar("T")


class Clock(Protocol):
    """Time. Only `now` may enter a turn's state; `monotonic` is for deadlines and durations, in seconds."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class IdSource(Protocol):
    """New ids: UUIDs as text."""

    def new(self) -> str: ...


class LLMAdapter(Protocol):
    """One way to a model. Stateless: everything it needs is in the call."""

    @property
    def model(self) -> str:
        """The model's name, for the record."""
        ...

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
    ) -> LLMResponse:
        """One answer of the model.

        Raises `LLMError` or one of its kinds; every foreign exception is translated. Retries once by itself where that can
        help, inside `time_left()`.
        """
        ...

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        """The declarations of `tools`, in that order. Raises `ToolNotFoundError` for a name it does not have."""
        ...


class ToolExecutor(Protocol):
    """The only way to an effect."""

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        """Run one tool for `user_id`. Never raises for what a tool or server does: failure is in the result.

        `deadline` is in seconds from now. A result whose `unknown` is true may or may not have taken effect.
        """
        ...

    def get_available_tools(self) -> list[str]:
        """The names the server serves, in its order."""
        ...


@runtime_checkable
class ToolServer(ToolExecutor, Protocol):
    """A `ToolExecutor` that knows its tools: what the MCP client is."""

    async def start(self) -> bool:
        """Connect, if it is not connected; False if the server cannot be reached now."""
        ...

    def declarations(self) -> list[ToolDeclaration]:
        """What the server says of its tools, schemas as they came."""
        ...

    def traits(self, tool_name: str) -> ToolTraits: ...

    async def settle(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str,
        deadline: float | None = None,
    ) -> ToolResult:
        """What became of an operation whose outcome is unknown, without ever running it.

        Returns the stored result if it took effect; a failure (TOOL_EXECUTION_ERROR) if it did not and now never will: the
        key is void. `unknown` stays true when even this cannot be learned.
        """
        ...

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """What a call would act on, read-only: `data["description"]` is a short text; NOT_FOUND if there is nothing."""
        ...


class Confirmations(Protocol):
    """Where confirmations are used up, in a database of ours."""

    async def consume(self, pending_id: str, decision_id: str) -> bool:
        """Use up `pending_id` for the turn `decision_id`; False if another turn has. The same turn may ask again."""
        ...


class AuditWriter(Protocol):
    """The log database, writing side. Every method commits before it returns; if it cannot, `RecordUnavailableError`."""

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
        header: RecordHeader | None = None,
        blobs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """The opening row. `blobs` are texts by digest, stored once."""
        ...

    async def write_llm_call_log(
        self,
        *,
        decision_id: str,
        sequence: int,
        response: LLMResponse,
        request_digest: str,
        duration_ms: int,
        entries: Sequence[RecordEntry] = (),
    ) -> LLMResponse:
        """A model response, before anything acts on it. Returns the stored one where another process was first.

        Raises `TurnTakenOverError` if that process asked something else.
        """
        ...

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
        invoked_at: datetime | None = None,
        entries: Sequence[RecordEntry] = (),
    ) -> None:
        """A call that was sent, with its result."""
        ...

    async def write_entries(self, *, decision_id: str, entries: Sequence[RecordEntry]) -> None:
        """Entries that must stand before the turn goes on."""
        ...

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        """Make the row terminal, only where it is PENDING; returns what stands then, this record or an earlier one."""
        ...

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        """What stands of a turn: open, closed, or nothing."""
        ...

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        """The stored blobs among `digests`."""
        ...


class TurnPorts(Protocol):
    """Everything a node may reach, all of it recorded, all of it replayable.

    The methods never raise for failures outside: they return data. They raise `RecordError` when the turn may not go on.
    """

    async def open(self) -> None:
        """Commit the opening row. Nothing is called before it stands. Raises `RecordUnavailableError`."""
        ...

    def now(self) -> datetime: ...

    def new_id(self) -> str: ...

    def sign(self, pending: PendingAction) -> str:
        """The signature that binds `pending` to this turn's user and conversation."""
        ...

    def verify(self, pending: PendingAction) -> bool: ...

    async def consume(self, pending_id: str) -> bool:
        """Use up a confirmation; False if it was used before."""
        ...

    async def generate(self, request: LLMRequest) -> LLMResponse:
        """One adapter call, committed to the record before it is returned; errors are `finish_reason="error"`."""
        ...

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult: ...

    async def execute(self, call: AuthorizedCall) -> ToolResult: ...

    async def settle(self, call: AuthorizedCall) -> ToolResult: ...

    @property
    def interrupted(self) -> bool:
        """Whether the turn was ended from outside (deadline, cancellation, shutdown, crash): start nothing more."""
        ...














