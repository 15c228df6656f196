"""The interfaces between the runtime and everything that it depends on.

A port ships with its fake: `ScriptedAdapter` for `LLMAdapter`, `ManualClock` and `SequentialIds` in `clock.py`. The nodes
of the graph see only `graph.ports.TurnPorts`, which the recorder implements around all the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from graph_agent.errors import ConfigurationError
from graph_agent.models.approval import KnownRequests
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolChoice, ToolDeclaration
from graph_agent.models.mandate import PermittedLine, Plan
from graph_agent.models.tools import ToolResult, ToolTraits

if TYPE_CHECKING:
    # Only named in signatures.
    from graph_agent.policy.compiled import CompiledPolicy

if TYPE_CHECKING:
    # Only named in a signature: its import takes 0.1 s, and the commands that only read the database do without it.
    from graph_agent.policy.authorized_call import AuthorizedCall


class Clock(Protocol):
    """A clock. Only `now` is stored in a turn's state; `monotonic` is for deadlines and durations, in seconds."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class IdSource(Protocol):
    """A source of new ids: UUIDs as text."""

    def new(self) -> str: ...


class LLMAdapter(Protocol):
    """The connection to a model. It is stateless: a call contains everything that it needs."""

    @property
    def model(self) -> str:
        """The model's name, for the record."""

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
        tool_choice: ToolChoice = "auto",
    ) -> LLMResponse:
        """Return one response of the model.

        Raises `LLMError` or a subclass; exceptions of the SDK are translated. May retry within `time_left()`.
        """

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        """Return the declarations of `tools`, in that order. Raises `ToolNotFoundError` for an unknown name."""


class ToolExecutor(Protocol):
    """The execution of tools, as the engine contract has it. The engine wraps such an executor in a `PlainExecutor`."""

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        """Run one tool for `user_id`. A failure of the tool or its server is returned as a result, never raised.

        `deadline` is in seconds from now. If `unknown` of the result is true, the call may have taken effect.
        """

    def get_available_tools(self) -> list[str]:
        """Return the names of the tools that the server serves, in its order."""


class SentCall(Protocol):
    """A call that may have been sent: enough to ask a ledger for its outcome, but no permission to run it."""

    @property
    def tool_name(self) -> str: ...

    @property
    def arguments(self) -> dict[str, Any]: ...

    @property
    def user_id(self) -> str: ...

    @property
    def operation_key(self) -> str: ...


@runtime_checkable
class ToolServer(Protocol):
    """Runs permitted calls, and knows the declarations and traits of its tools, settlement and previews: the MCP client."""

    async def start(self) -> bool:
        """Connect, if it is not connected; False if the server cannot be reached now."""

    def get_available_tools(self) -> list[str]:
        """Return the names of the tools that the server serves, in its order."""

    def declarations(self) -> list[ToolDeclaration]:
        """Return the server's declarations of its tools, with unchanged schemas."""

    def traits(self, tool_name: str) -> ToolTraits: ...

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        """Run a call that the guard has permitted. A failure of the tool or its server is returned as a result, never raised.

        `deadline` is in seconds from now. If `unknown` of the result is true, the call may have taken effect.
        """

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        """Return the outcome of an operation without running it.

        This is the stored result if it took effect. Otherwise the server voids its key, so that it can never take effect, and
        the result is TOOL_EXECUTION_ERROR.
        `unknown` of the result is true if the server cannot be asked.
        """

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """Describe the target of a call without performing it: `data["description"]`, or NOT_FOUND if it does not exist."""


@runtime_checkable
class SeveralServers(Protocol):
    """A `ToolServer` that consists of several."""

    def server_of(self, tool_name: str) -> str:
        """Return the name of the server of a tool; empty for an unknown one."""

    def server_names(self) -> Collection[str]:
        """Return the names of all servers, whether they can be reached or not."""


def call_seconds_of(server: ToolServer) -> float:
    """Return the time limit of one call: the `call_seconds` of the server if it has them, or `DEFAULT_CALL_SECONDS`."""
    found: float = getattr(server, "call_seconds", DEFAULT_CALL_SECONDS)
    return found


@dataclass(frozen=True, slots=True)
class ConfirmationUse:
    """The use of a confirmation: by one decision, for what its user has answered."""

    pending: PendingAction
    user_id: str
    conversation_id: str
    decision_id: str
    yes: bool | None
    """None for another request, which answers nothing and takes the place of the question."""


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """A question for a yes that no longer waits."""

    decision_id: str | None
    """The decision that has followed an answer or another message; None if the question was withdrawn."""


class Confirmations(Protocol):
    """The store of used confirmations."""

    async def consume(self, use: ConfirmationUse) -> bool:
        """Use a confirmation up for a decision; False if another one has. The same decision may ask again."""


class AskedConfirmations(Confirmations, Protocol):
    """A store of confirmations that keeps the questions which wait, too, so that they can be answered at another front door."""

    async def ask(self, pending: PendingAction, user_id: str, decision_id: str) -> None:
        """Store the question about a card that a decision has asked. The same question again changes nothing."""

    async def ended(self, pending_id: str, user_id: str) -> EndedQuestion | None:
        """Return what has ended the question to this user; None if it waits, is late, or was never asked."""


class ApprovalRequests(Protocol):
    """The store of approval requests, as the turns that open them see it."""

    async def known(self, call_digest: str, user_id: str, conversation_id: str) -> KnownRequests:
        """Return what is stored about earlier requests of the user. Raises `RecordUnavailableError`."""


class PlanSolver(Protocol):
    """Solves what the rules let run of a plan."""

    def __call__(self, plan: Plan, policy: CompiledPolicy) -> list[PermittedLine]:
        """Return the most that each line permits, within seconds. It runs in a thread, and raises nothing."""


class ContractMethod:
    """A method of an application's own adapter or executor, called with the arguments that it accepts.

    The required methods are `generate(messages, tools, temperature, max_tokens)` and `execute(tool_name, parameters, user_id)`.
    The runtime has further arguments, such as `deadline`, and passes those that the method accepts. The signature is read once;
    a method that cannot be called at all is rejected when the engine is constructed.
    """

    def __init__(self, owner: object, name: str, required: Sequence[str], optional: Sequence[str]) -> None:
        """`required` are the parameters that the method must accept. Raises `ConfigurationError`, which names the parameter."""
        method = getattr(owner, name, None)
        where = f"{type(owner).__name__}.{name}()"
        if not callable(method):
            raise ConfigurationError(f"{type(owner).__name__} has no method '{name}'")
        self._method = method
        self._accepted = frozenset((*required, *optional))
        try:
            parameters = inspect.signature(method).parameters
        except (TypeError, ValueError):
            return  # a callable without a readable signature gets every parameter
        # A plain function would block the event loop; other callables may return an awaitable.
        plain = inspect.unwrap(getattr(method, "__func__", method))
        if inspect.isfunction(plain) and not inspect.iscoroutinefunction(plain):
            raise ConfigurationError(f"{where} must be a coroutine function: define it with 'async def'")
        kinds = inspect.Parameter
        by_keyword = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        for name, parameter in parameters.items():
            is_needed = parameter.default is kinds.empty and parameter.kind in (*by_keyword, kinds.POSITIONAL_ONLY)
            if is_needed and (name not in self._accepted or parameter.kind is kinds.POSITIONAL_ONLY):
                raise ConfigurationError(f"{where} requires the parameter '{name}', which is not passed to it")
        if all(parameter.kind is not kinds.VAR_KEYWORD for parameter in parameters.values()):
            self._accepted &= {name for name, parameter in parameters.items() if parameter.kind in by_keyword}
        for name in required:
            if name not in self._accepted:
                raise ConfigurationError(f"{where} does not accept the parameter '{name}'")

    def accepts(self, parameter: str) -> bool:
        return parameter in self._accepted

    async def __call__(self, **arguments: Any) -> Any:
        return await self._method(**{name: value for name, value in arguments.items() if name in self._accepted})
