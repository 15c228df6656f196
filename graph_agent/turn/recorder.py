"""One recorder around every port of a turn.

Every question a node asks the outside passes here and becomes an entry: which port, the digest of what was asked, and the
answer. Entries that stand already are played instead of asked again. That one rule gives three things:

    record   nothing played, the real ports outside
    resume   what a dead process left is played, then the real ports go on
    replay   everything is played, and there is no outside

Where an INTERRUPT entry is played, the turn was ended from outside: from there on nothing new is started, and the nodes walk
their ordinary way to a decision.

A node never sees an answer in another form than the record holds it: what a model or a tool says is read back from its own
canonical text first, so that not even the order of keys can make a replay go another way.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, TypeVar

from graph_agent.errors import LLMError, RecordMismatchError, RecordUnavailableError, ToolErrorCode, TurnTakenOverError
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import PendingAction, unstorable
from graph_agent.models.llm import LLMErrorCode, LLMRequest, LLMResponse
from graph_agent.models.record import EntryKind, InterruptReason, RecordEntry, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.ports import AuditWriter, Clock, Confirmations, IdSource, LLMAdapter, ToolExecutor, ToolServer
from graph_agent.deadlines import answer_within, attempt_limit, time_left

T = TypeVar("T")
A = TypeVar("A", LLMResponse, ToolResult)

_STARTED = frozenset({EntryKind.MODEL, EntryKind.PREVIEW, EntryKind.EXECUTE})
"""What an interrupted turn no longer does: such a question has no entry, neither when it is recorded nor when it is played."""

_log = logging.getLogger(__name__)

_NOT_STARTED = "not started: the turn had ended"
_NOBODY_KNOWS = "no answer in time: it may or may not have been done"


@dataclass(frozen=True, slots=True)
class Outside:
    """The real ports."""

    adapter: LLMAdapter
    tools: ToolExecutor
    ids: IdSource
    signer: Signer
    confirmations: Confirmations
    call_seconds: float = 10.0
    """How long one tool call may take at most."""
    generate_seconds: float | None = None
    """How long one model call may take at most; None leaves it to the adapter and the turn's deadline."""


class Recorder:
    """`TurnPorts` for one run of one turn."""

    def __init__(
        self,
        header: RecordHeader,
        *,
        clock: Clock,
        outside: Outside | None = None,
        writer: AuditWriter | None = None,
        blobs: Mapping[str, str] | None = None,
        played: Sequence[RecordEntry] = (),
        saved: int | None = None,
    ) -> None:
        """`played` stand already, `saved` of them in the log (None: no opening row yet)."""
        self.header = header
        self.entries = list(played)
        self._clock = clock
        self._outside = outside
        self._writer = writer
        self._blobs = blobs or {}
        self._next = 0
        self._saved = saved
        self._model_calls = 0
        self._interrupted = False
        self._in_flight: tuple[EntryKind, str] | None = None
        self._lost_call: tuple[str, str] | None = None
        self._resumed_at = len(played) if played and outside is not None else None
        self._fenced = False

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    @property
    def finished(self) -> bool:
        """Whether everything that was to be played has been."""
        return self._next >= len(self.entries)

    @property
    def recorded(self) -> list[RecordEntry]:
        """The entries that the turn has really passed."""
        return self.entries[: self._next]

    def fence(self) -> None:
        """End this run: whatever of it is still under way can no longer act or write."""
        self._fenced = True

    def ended_by(self, reason: InterruptReason, *, only_passed: bool = False) -> list[RecordEntry]:
        """What stands of this turn, and as its last entry what ended it, naming the call that was under way.

        `only_passed` leaves out what stood already and was not played yet: where it cannot be played.
        """
        stands = self.recorded if only_passed else self.entries
        in_flight = {"kind": self._in_flight[0], "request": self._in_flight[1]} if self._in_flight else None
        if in_flight is None and self._resumed_at is not None and self._next <= self._resumed_at:
            # This run has not come further than the one that died, whose last call nobody knows.
            reason = InterruptReason.CRASH
        told = {"reason": reason, "in_flight": in_flight}
        return [*stands, RecordEntry(n=len(stands), kind=EntryKind.INTERRUPT, result=told)]

    @property
    def saved(self) -> int | None:
        """How many entries stand in the log; None while there is no opening row."""
        return self._saved

    async def open(self) -> None:
        if self._writer is None or self._saved is not None:
            return
        context = self.header.context
        await self._writer.write_decision_log(
            decision_id=self.header.decision_id,
            conversation_id=context.conversation_id,
            user_id=context.user_id,
            message=context.message,
            header=self.header,
            blobs=self._blobs,
        )
        self._saved = 0

    def now(self) -> datetime:
        told = self._at_once(EntryKind.CLOCK, None, lambda: self._clock.now().isoformat())
        return datetime.fromisoformat(told)

    def new_id(self) -> str:
        told: str = self._at_once(EntryKind.ID, None, lambda: self._real().ids.new())
        return told

    def sign(self, pending: PendingAction) -> str:
        told: str = self._at_once(
            EntryKind.SIGN, pending.to_json(), lambda: self._real().signer.sign(pending, **self._bound_to())
        )
        return told

    def verify(self, pending: PendingAction) -> bool:
        told: bool = self._at_once(
            EntryKind.VERIFY, pending.to_json(), lambda: self._real().signer.verify(pending, **self._bound_to())
        )
        return told

    async def consume(self, pending_id: str) -> bool:
        request = digest(pending_id)
        if (entry := self._play(EntryKind.CONSUME, request)) is not None:
            return bool(entry.result)
        outside = self._real()
        try:
            fresh = await answer_within(
                attempt_limit(outside.call_seconds), outside.confirmations.consume(pending_id, self.header.decision_id)
            )
        except Exception as exc:
            # Fails closed: without the database nobody can say that the confirmation is unused.
            _log.warning("a confirmation could not be used up", exc_info=not isinstance(exc, RecordUnavailableError))
            fresh = False
        self._note(EntryKind.CONSUME, request, fresh)
        return fresh

    async def generate(self, request: LLMRequest) -> LLMResponse:
        asked = request_digest(request)
        if (entry := self._play(EntryKind.MODEL, asked)) is not None:
            self._model_calls += 1
            return LLMResponse.model_validate(entry.result)
        if self._interrupted:
            return LLMResponse(finish_reason="error", error=LLMErrorCode.TIMEOUT)
        self._model_calls += 1
        response, ms = await self._timed(EntryKind.MODEL, asked, lambda: self._ask_model(request))
        self._note(EntryKind.MODEL, asked, response.to_json(), ms)
        # A response without calls can only become the reply: it is committed together with the terminal row.
        if self._writer is not None and response.function_calls:
            stored = await self._writer.write_llm_call_log(
                decision_id=self.header.decision_id,
                sequence=self._model_calls,
                response=response,
                request_digest=asked,
                duration_ms=ms,
                entries=self._unsaved(),
            )
            if stored != response:
                self.entries[-1] = self.entries[-1].replace(result=stored.to_json())
                response = stored
            self._mark_saved()
        return response

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        asked = digest([tool_name, arguments])
        if (entry := self._play(EntryKind.PREVIEW, asked)) is not None:
            return ToolResult.model_validate(entry.result)
        if self._interrupted:
            return ToolResult(success=False, error=_NOT_STARTED)
        result, ms = await self._timed(EntryKind.PREVIEW, asked, lambda: self._look_up(tool_name, arguments))
        self._note(EntryKind.PREVIEW, asked, result.to_json(), ms)
        return result

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        asked = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        if (entry := self._play(EntryKind.EXECUTE, asked)) is not None:
            return ToolResult.model_validate(entry.result)
        if self._interrupted:
            return self._cut_off(asked)
        invoked_at = self._clock.now()
        if call.mutating and not call.ledger and self._resumed_at == self._next:
            # A process died somewhere here. It may have sent this call, and the server could not tell it from a new one.
            result, ms = ToolResult(success=False, error=_NOBODY_KNOWS, error_code=ToolErrorCode.UNKNOWN_ERROR), 0
        else:
            if call.mutating:
                await self._save()
            result, ms = await self._timed(EntryKind.EXECUTE, asked, lambda: self._send(call))
        self._note(EntryKind.EXECUTE, asked, result.to_json(), ms, at=invoked_at)
        if self._writer is not None:
            await self._writer.write_tool_invocation_log(
                decision_id=self.header.decision_id,
                tool_name=call.tool_name,
                parameters=call.arguments,
                result=result.data,
                success=result.success,
                error_code=result.error_code,
                error_message=result.error,
                duration_ms=ms,
                sequence=call.sequence,
                invoked_at=invoked_at,
                entries=self._unsaved(),
            )
            self._mark_saved()
        return result

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        asked = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        if (entry := self._play(EntryKind.SETTLE, asked)) is not None:
            return ToolResult.model_validate(entry.result)
        result, ms = await self._timed(EntryKind.SETTLE, asked, lambda: self._settle(call))
        self._note(EntryKind.SETTLE, asked, result.to_json(), ms)
        return result

    def _cut_off(self, asked: str) -> ToolResult:
        """The turn was ended from outside before this call had an answer: was it under way?"""
        if self._lost_call is not None and self._lost_call in ((EntryKind.EXECUTE, asked), ("anything", "")):
            self._lost_call = None
            return ToolResult(success=False, error=_NOBODY_KNOWS, error_code=ToolErrorCode.TIMEOUT_ERROR)
        return ToolResult(success=False, error=_NOT_STARTED, error_code=ToolErrorCode.TOOL_EXECUTION_ERROR)

    async def _ask_model(self, request: LLMRequest) -> LLMResponse:
        outside = self._real()
        limit = time_left()
        if outside.generate_seconds is not None:
            limit = outside.generate_seconds if limit is None else min(limit, outside.generate_seconds)
        try:
            async with asyncio.timeout(limit):
                # Lists of its own: an adapter may not change what the turn knows.
                response = await outside.adapter.generate(
                    list(request.messages),
                    list(request.tools),
                    request.temperature,
                    request.max_tokens,
                    system_instruction=request.system_instruction,
                )
            response = _as_recorded(response)
        except LLMError as exc:
            known = LLMErrorCode(exc.code) if exc.code in LLMErrorCode.__members__ else LLMErrorCode.UNAVAILABLE
            _log.warning("model call failed: %s", known)
            wait = exc.retry_after
            sensible = wait is not None and isfinite(wait) and wait >= 0
            return LLMResponse(finish_reason="error", error=known, retry_after=wait if sensible else None)
        except TimeoutError:
            return LLMResponse(finish_reason="error", error=LLMErrorCode.TIMEOUT)
        except (UnicodeEncodeError, AttributeError):
            return LLMResponse(finish_reason="error", error=LLMErrorCode.INVALID_RESPONSE)
        except (Exception, BaseExceptionGroup):
            _log.exception("model adapter raised what it should have translated")
            return LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)
        except asyncio.CancelledError:
            _raise_own_cancellation()
            return LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)
        return response

    async def _send(self, call: AuthorizedCall) -> ToolResult:
        tools = self._real().tools
        return await self._ask_server(
            lambda limit: tools.execute(
                call.tool_name,
                # A copy: an executor may not change what the turn knows.
                copy.deepcopy(call.arguments),
                call.user_id,
                operation_key=call.operation_key if call.mutating else None,
                deadline=limit,
            )
        )

    async def _look_up(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        tools, user_id = self._real().tools, self.header.context.user_id
        if not isinstance(tools, ToolServer):
            return ToolResult(success=False, error=_NOT_STARTED)
        return await self._ask_server(lambda limit: tools.preview(tool_name, copy.deepcopy(arguments), user_id, deadline=limit))

    async def _settle(self, call: AuthorizedCall) -> ToolResult:
        tools = self._real().tools
        if not isinstance(tools, ToolServer):
            return ToolResult(success=False, error=_NOBODY_KNOWS, error_code=ToolErrorCode.UNKNOWN_ERROR)
        return await self._ask_server(
            lambda limit: tools.settle(
                call.tool_name,
                copy.deepcopy(call.arguments),
                call.user_id,
                operation_key=call.operation_key,
                deadline=limit,
            )
        )

    async def _ask_server(self, ask: Callable[[float], Coroutine[Any, Any, ToolResult]]) -> ToolResult:
        """What a tool server answers. Whatever else it does, in time or not, leaves it unknown what it did."""
        limit = attempt_limit(self._real().call_seconds)
        try:
            # A second clock beside the executor's own: one that forgets its deadline must not hold the turn.
            result = _as_recorded(await answer_within(limit + 0.25, ask(limit)))
        except TimeoutError:
            return ToolResult(success=False, error=_NOBODY_KNOWS, error_code=ToolErrorCode.TIMEOUT_ERROR)
        except UnicodeEncodeError:
            return ToolResult(success=False, error="the result is not valid text", error_code=ToolErrorCode.UNKNOWN_ERROR)
        except Exception:
            _log.exception("a tool server raised instead of answering")
            return ToolResult(success=False, error=_NOBODY_KNOWS, error_code=ToolErrorCode.UNKNOWN_ERROR)
        if result.error is not None and unstorable(result.error):
            return result.replace(error="the error is not valid text")
        return result

    def _real(self) -> Outside:
        if self._outside is None:
            raise RecordMismatchError("the turn asks for more than was recorded")
        return self._outside

    def _bound_to(self) -> dict[str, str]:
        context = self.header.context
        return {"user_id": context.user_id, "conversation_id": context.conversation_id}

    def _play(self, kind: EntryKind, request: str | None) -> RecordEntry | None:
        """The next entry that stands already, or None if there is none and the outside is to be asked."""
        if self._fenced:
            raise TurnTakenOverError("this run of the turn has ended")
        # More than one where the process that ended a turn was itself ended.
        while not self.finished and self.entries[self._next].kind is EntryKind.INTERRUPT:
            told = self.entries[self._next].result
            if in_flight := told["in_flight"]:
                self._lost_call = (in_flight["kind"], in_flight["request"])
            if told["reason"] == InterruptReason.CRASH:
                self._lost_call = ("anything", "")
            self._interrupted = True
            self._next += 1
        if self.finished or (self._interrupted and kind in _STARTED):
            return None
        entry = self.entries[self._next]
        if entry.kind is not kind or entry.request != request:
            raise RecordMismatchError(
                f"entry {entry.n}: the record holds {entry.kind} {entry.request}, the turn asks for {kind} {request}"
            )
        self._next += 1
        return entry

    def _at_once(self, kind: EntryKind, request: Any, ask: Callable[[], Any]) -> Any:
        asked = None if request is None else digest(request)
        if (entry := self._play(kind, asked)) is not None:
            return entry.result
        if self._outside is None:
            self._real()
        told = ask()
        self._note(kind, asked, told)
        return told

    async def _timed(self, kind: EntryKind, request: str, ask: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        if self._fenced:
            raise TurnTakenOverError("this run of the turn has ended")
        self._in_flight = (kind, request)
        started = self._clock.monotonic()
        answer = await ask()
        ms = round((self._clock.monotonic() - started) * 1000)
        if self._fenced:
            raise TurnTakenOverError("this run of the turn has ended")
        self._in_flight = None
        return answer, ms

    def _note(self, kind: EntryKind, request: str | None, result: Any, ms: int = 0, at: datetime | None = None) -> None:
        if self._fenced:
            raise TurnTakenOverError("this run of the turn has ended")
        self.entries.append(RecordEntry(n=len(self.entries), kind=kind, request=request, result=result, ms=ms, at=at))
        self._next = len(self.entries)

    def _unsaved(self) -> list[RecordEntry]:
        return self.entries[self._saved or 0 :]

    def _mark_saved(self) -> None:
        self._saved = len(self.entries)

    async def _save(self) -> None:
        if self._writer is not None and self._unsaved():
            await self._writer.write_entries(decision_id=self.header.decision_id, entries=self._unsaved())
            self._mark_saved()


def _as_recorded(answer: A) -> A:
    """`answer` as a replay will read it. Raises UnicodeEncodeError for a lone surrogate, which would break every database."""
    return type(answer).model_validate_json(canonical_json(answer.to_json()).encode())


def call_digest(tool_name: str, arguments: dict[str, Any], user_id: str, operation_key: str) -> str:
    """What was asked of the tools, for whom, and under which key."""
    return digest([tool_name, arguments, user_id, operation_key])


def request_digest(request: LLMRequest) -> str:
    """What was asked of the model. The tools are told by name: their schemas stand under the header's own digest."""
    messages = [message.to_json() for message in request.messages]
    tools = [tool.name for tool in request.tools]
    return digest([request.system_instruction, tools, messages, request.temperature, request.max_tokens])


def _raise_own_cancellation() -> None:
    """Pass on a cancellation that is meant for this task; one that strayed in from a dead session is only a failure."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise
