"""The dependencies of a turn: the model, the tools, ids, signatures and used confirmations.

Calls to the model and to tools never raise for what the other side does: every failure becomes a response or a result with an
error code. A tool call that has no answer has an unknown outcome, since it may have taken effect.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from graph_agent.clock import attempt_limit, run_with_timeout, time_left
from graph_agent.errors import RecordUnavailableError, RulesReplacedError, StoppedError, ToolErrorCode, ToolRefusal
from graph_agent.llm.adapter_call import AdapterCall
from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.decision import unstorable
from graph_agent.models.llm import LLMErrorCode, LLMRequest, LLMResponse
from graph_agent.models.stop import Sending
from graph_agent.models.tools import ToolResult
from graph_agent.net.permits import require_permit, sent_under
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.signature import Signer
from graph_agent.ports import (
    ApprovalRequests,
    Confirmations,
    ConfirmationUse,
    IdSource,
    PlanSolver,
    SentCall,
    SeveralServers,
    ToolServer,
)
from graph_agent.tools.outcomes import learn_outcome, send

if TYPE_CHECKING:
    # Only named here: it imports SQLAlchemy, which an engine in memory does not need.
    from graph_agent.record.permit import Permit

A = TypeVar("A", LLMResponse, ToolResult)
R = TypeVar("R")

_log = logging.getLogger(__name__)

_EXECUTOR_GRACE_SECONDS = 0.25
"""The extra time that a tool executor gets to end its call after the deadline."""

_OUTCOME_UNKNOWN_ERRORS = (TimeoutError, ConnectionError, EOFError, BaseExceptionGroup)
"""Exceptions after which a call may have taken effect."""

NOT_SENT = (StoppedError, RulesReplacedError, RecordUnavailableError)
"""Exceptions of a permit: an operator has stopped what was to be sent, or the database does not say that none has."""

NOT_STARTED = "not started: the turn had ended"
STOPPED = "not sent: the operator has stopped this"
REPLACED = "not sent: other rules are in force"
TOO_LATE = "not sent: the time of this turn is nearly over, and a change must have time for its answer"
OUTCOME_UNKNOWN = "no answer in time: it may or may not have been done"


@dataclass(frozen=True, slots=True)
class ExternalPorts:
    """The real dependencies of a turn; a replay has none."""

    call_model: AdapterCall
    tools: ToolServer
    ids: IdSource
    signer: Signer
    confirmations: Confirmations
    approvals: ApprovalRequests | None = None
    permitted: PlanSolver | None = None
    """Solves what a plan permits at most; None leaves its lines as they are."""
    permit: Permit | None = None
    """The knowledge of the stops of operators; None if there is no table of them."""
    attempt: int = 1
    """The number of the attempt of the turn, which the servers of its calls learn."""
    call_seconds: float = DEFAULT_CALL_SECONDS
    """The time limit of one tool call."""
    settle_seconds: float = 2.0
    """The time limit of one settlement, also after the deadline. A change is not sent with less time than this left."""
    generate_seconds: float | None = None
    """The time limit of one model call; None leaves it to the adapter and the turn's deadline."""

    async def consume(self, use: ConfirmationUse) -> bool:
        """Use up a confirmation; False if it was used before, or if that cannot be known."""
        try:
            limit = attempt_limit(self.call_seconds)
            return await run_with_timeout(limit, self.confirmations.consume(use))
        except Exception as exc:
            _log.warning("a confirmation could not be used up", exc_info=not isinstance(exc, RecordUnavailableError))
            return False

    async def generate(self, request: LLMRequest, user_id: str) -> LLMResponse:
        """Make one model call for a user. Raises `NOT_SENT`, as all methods here that send something."""
        limit, sending = time_left(), Sending(user_id)
        if self.generate_seconds is not None:
            limit = self.generate_seconds if limit is None else min(limit, self.generate_seconds)
        try:
            async with asyncio.timeout(limit) as timer:
                with self._sent_under(sending), nullcontext() if self.permit is None else self.permit.watched(timer, sending):
                    await require_permit()
                    response = await self.call_model(request)
            return _as_recorded(response)
        except NOT_SENT:
            raise
        except TimeoutError:
            if self.permit is not None:
                # A stop has ended it.
                self.permit.require_not_stopped(sending)
            return LLMResponse(finish_reason="error", error=LLMErrorCode.TIMEOUT)
        except (UnicodeEncodeError, AttributeError):
            return LLMResponse(finish_reason="error", error=LLMErrorCode.INVALID_RESPONSE)
        except (Exception, BaseExceptionGroup):
            _log.exception("a model adapter raised an exception that it should have translated")
            return LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)
        except asyncio.CancelledError:
            _raise_own_cancellation()
            return LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)

    async def execute(self, call: AuthorizedCall, *, within: float | None = None) -> ToolResult:
        """Send one tool call; a change only if there is time for its answer. `within` limits the time further, in seconds."""
        if within is not None and within <= 0:
            return ToolResult.failed(ToolErrorCode.TIMEOUT_ERROR, OUTCOME_UNKNOWN)
        left = time_left()
        if call.mutating and left is not None and left < self.settle_seconds:
            return ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, TOO_LATE)

        async def run(limit: float) -> ToolResult:
            # A copy, because an executor must not be able to change the turn's state.
            sent = copy.deepcopy(call).as_sent(self.attempt)
            return await self._permitted(self._sending(call), lambda: run_permitted(sent, limit))

        async def run_permitted(sent: AuthorizedCall, limit: float) -> ToolResult:
            waited: list[bool] = []
            # The event loop runs this callback only if the executor waits for something.
            mark = asyncio.get_running_loop().call_soon(waited.append, True)
            try:
                return await send(self.tools, sent, limit)
            except ToolRefusal as refusal:
                return ToolResult.failed(refusal.code, refusal.sentence)
            except NOT_SENT:
                raise
            except Exception as exc:
                if not _has_known_outcome(exc, waited=bool(waited)):
                    raise
                _log.exception("a tool executor raised an exception")
                return ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "the tool failed")
            finally:
                mark.cancel()

        return await self._tool_result(run, at_most=within)

    async def send_again(self, call: AuthorizedCall) -> ToolResult:
        """Send a call that an earlier attempt of the turn may have sent, under the same key.

        Its outcome is unknown unless it succeeds: a failure, also one before anything was sent, may be about this attempt only.
        """
        if call.key is not None:
            return await self.settle(call)
        result = await _unknown_if_not_sent(self.execute(call))
        return result if result.success or result.unknown else ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, OUTCOME_UNKNOWN)

    async def settle(self, call: AuthorizedCall, *, sent_before: float = 0.0) -> ToolResult:
        """Return the outcome of a call that may have been sent, these seconds ago; unknown if the executor cannot be asked.

        While a call is stopped it is asked about, unless its server is stopped. It is not sent again under its key, since that
        may make the change.
        """

        async def send_again(sent: AuthorizedCall, limit: float) -> ToolResult:
            return await _unknown_if_not_sent(self._permitted(self._sending(call), lambda: send(self.tools, sent, limit)))

        async def look(read: AuthorizedCall, limit: float) -> ToolResult:
            # Its server may be another one than that of the call.
            sending = self._sending(read)._replace(asks=True)
            return await _unknown_if_not_sent(self._permitted(sending, lambda: send(self.tools, read, limit)))

        async def learn(limit: float) -> ToolResult:
            asked, attempt = copy.deepcopy(call), self.attempt
            return await self._permitted(
                self._sending(call)._replace(asks=True),
                lambda: learn_outcome(self.tools, asked, limit, send_again, look, attempt=attempt, sent_before=sent_before),
            )

        return await _unknown_if_not_sent(self._tool_result(learn, at_least=self.settle_seconds))

    async def ask_ledger(self, call: SentCall, seconds: float) -> ToolResult:
        """Return the outcome of a call from the ledger of its server; unknown while that is stopped."""
        sending = Sending(call.user_id, call.tool_name, self.server_of(call.tool_name), asks=True)
        return await _unknown_if_not_sent(self._permitted(sending, lambda: self.tools.settle(call, deadline=seconds)))

    async def preview(self, tool_name: str, arguments: dict[str, Any], user_id: str) -> ToolResult:
        """Look up what a call would act on."""

        async def look(limit: float) -> ToolResult:
            return await self._permitted(
                Sending(user_id, tool_name, self.server_of(tool_name)),
                lambda: self.tools.preview(tool_name, copy.deepcopy(arguments), user_id, deadline=limit),
            )

        return await self._tool_result(look)

    async def read_from(self, server: str, ask: Callable[[], Awaitable[R]], user_id: str, tool_name: str = "") -> R:
        """Return what a server answers to a request that is no call: for a prompt, or for what a result of a tool links to."""
        return await self._permitted(Sending(user_id, tool_name, server), ask)

    def server_of(self, tool_name: str) -> str:
        """Return the name of the server of a tool; empty if there is only one."""
        return self.tools.server_of(tool_name) if isinstance(self.tools, SeveralServers) else ""

    def _sending(self, call: AuthorizedCall) -> Sending:
        return Sending(call.user_id, call.tool_name, self.server_of(call.tool_name), call.mutating)

    async def _permitted(self, sending: Sending, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask under the permit to send something. Raises `NOT_SENT`."""
        with self._sent_under(sending):
            await require_permit()
            return await ask()

    def _sent_under(self, sending: Sending) -> AbstractContextManager[None]:
        return sent_under(None if self.permit is None else self.permit.to_send(sending))

    async def _tool_result(
        self,
        call: Callable[[float], Coroutine[Any, Any, ToolResult]],
        *,
        at_least: float = 0.0,
        at_most: float | None = None,
    ) -> ToolResult:
        limit = max(attempt_limit(self.call_seconds), at_least)
        limit = limit if at_most is None else min(limit, at_most)
        try:
            # A timeout of our own, because an executor that ignores its deadline must not delay the turn.
            result = _as_recorded(await run_with_timeout(limit + _EXECUTOR_GRACE_SECONDS, call(limit)))
        except TimeoutError:
            return ToolResult.failed(ToolErrorCode.TIMEOUT_ERROR, OUTCOME_UNKNOWN)
        except UnicodeEncodeError:
            return ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "the result is not valid text")
        except NOT_SENT:
            raise
        except Exception:
            _log.exception("a tool executor raised instead of returning a result")
            return ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, OUTCOME_UNKNOWN)
        if result.error is not None and unstorable(result.error):
            return result.replace(error="the error is not valid text")
        return result


async def _unknown_if_not_sent(asking: Awaitable[ToolResult]) -> ToolResult:
    """Return the outcome of a call that may have been sent before; unknown if it cannot be asked for now."""
    try:
        return await asking
    except NOT_SENT:
        return ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, OUTCOME_UNKNOWN)


def _as_recorded(answer: A) -> A:
    """Return `answer` as a replay will read it: parsed from its canonical JSON, so that even the order of keys is the same.

    Raises UnicodeEncodeError for a lone surrogate, which no database can store.
    """
    return type(answer).model_validate_json(canonical_json(answer.to_json()).encode())


def _has_known_outcome(error: BaseException, *, waited: bool) -> bool:
    """True if the call that raised `error` certainly failed; False if it may have taken effect.

    After a timeout or a lost connection it may have. The same holds for a library's exception after the executor has `waited`
    for something, because it may stand for a lost connection. A builtin exception is a bug in the executor: the call failed.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(raised, _OUTCOME_UNKNOWN_ERRORS) for raised in chain):
        return False
    return not waited or all(type(raised).__module__ == "builtins" for raised in chain)


def _raise_own_cancellation() -> None:
    """Raise the handled CancelledError again if this task was cancelled. Otherwise a lost connection caused it: a failure."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise
