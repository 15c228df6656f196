"""The interface between the nodes of the graph and everything that a turn depends on; the recorder implements it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from graph_agent.models.approval import KnownRequests
from graph_agent.models.decision import PendingAction
from graph_agent.models.facts import FactRead, Facts
from graph_agent.models.llm import FunctionCall, LLMErrorCause, LLMResponse
from graph_agent.models.mandate import Covered, Draw, Mandate, PermittedLine, Plan, WantedDraw
from graph_agent.models.prompt import Prompt
from graph_agent.models.sources import BatchSources, CallSources, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation


@dataclass(frozen=True, slots=True)
class WantedRead:
    """A read that the runtime makes by itself, and what is kept of its result."""

    call: AuthorizedCall
    keep: Callable[[ToolResult], FactRead]
    first: bool = True
    """True if it starts the time limit, which the reads before one judgement share."""
    compared: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the judged call that the paths of its facts compare."""
    after: int | None = None
    """The number of the change after which it is made."""
    decides: bool = True
    """False if no condition is judged by it: what an undo restores is read."""


class FactPorts(Protocol):
    """The ports of the reads for facts."""

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        """Make a read for facts and return what is kept of its result."""

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict | None:
        """Judge a call again, by the uses of this moment, and count it if it may be sent; None if the turn is interrupted."""


class Drawn(NamedTuple):
    """The answer about a call that a mandate covers, in the transaction that counts it."""

    ruling: ConditionsVerdict
    draw: Draw | None
    """None if no line has room, or if the mandate is not in force any more."""


class TurnPorts(FactPorts, Protocol):
    """The ports of a node. Every answer is recorded and can be replayed.

    A failure of a model or tool is returned as data. `RecordError` is raised if the turn must not continue.
    """

    def now(self) -> datetime: ...

    def new_id(self) -> str: ...

    def sign(self, pending: PendingAction) -> str:
        """Return the signature that binds `pending` to this turn's user and conversation."""

    def verify(self, pending: PendingAction) -> bool: ...

    def differing_rules(self, pending: PendingAction) -> list[str]:
        """Return which rules in force here differ from those of the question `pending`; see `CompiledPolicy.differences`."""

    async def known_requests(self, call: FunctionCall) -> KnownRequests:
        """Return what is known about earlier approval requests of this turn's user, in view of a new one for this call."""

    async def consume(self, pending: PendingAction, *, yes: bool | None) -> bool:
        """Use up a confirmation by its answer, None for neither yes nor no; False if it was used before."""

    async def facts(self, conditions: Conditions) -> Facts:
        """Return the facts that `conditions` read: the time, in their time zone, and the counted calls of earlier turns.

        What only rules in the shadow read is left out where it is not known.
        """

    async def sources(
        self, batch: Sequence[FunctionCall], made: Sequence[ReadCall], *, needed: bool = True
    ) -> BatchSources | None:
        """Return where the arguments of a batch come from; `made` are the calls that this turn has sent before.

        None only if they are not known and not `needed`, because only rules in the shadow and approvers read them.
        """

    async def covered(
        self, call: FunctionCall, sources: CallSources | None, made: Sequence[ReadCall], *, exact: bool
    ) -> Covered | None:
        """Return the lines of a mandate in force in this conversation that a call fits; `made` as for `sources`.

        The arguments are without those that the runtime sets. With `exact` only lines that permit exactly one call count.
        """

    async def draw(
        self,
        call: AuthorizedCall,
        wanted: WantedDraw,
        ruling: ConditionsVerdict,
        conditions: Conditions | None,
        situation: Situation,
    ) -> Drawn | None:
        """Judge a call again, with the yes of a mandate, and draw and count it if it may be sent; None as for `reserve`.

        Without `conditions`, which count the call, the verdict is `ruling`.
        """

    async def permitted(self, plan: Plan) -> list[PermittedLine]:
        """Return the most that each line of a plan permits under the rules; a line that was not solved in time as it is."""

    async def mint(self, pending: PendingAction) -> Mandate:
        """Put the plan that the user has agreed to in force, in the commit that has the yes."""

    async def claim_undo(self, call: AuthorizedCall, undone: UndoneCall) -> str | None:
        """Commit that a call undoes another one; return the decision that has undone it before, empty if none has.

        None if the turn is interrupted.
        """

    async def generate(self, prompt: Prompt) -> LLMResponse:
        """Call the model once and commit the response to the record. An error is a response with `finish_reason="error"`."""

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult: ...

    def intend(self, calls: Sequence[AuthorizedCall]) -> None:
        """Name the permitted calls of a batch, in their order: the commit before a change has the row of its operation."""

    async def execute(self, call: AuthorizedCall) -> ToolResult: ...

    async def settle(self, call: AuthorizedCall) -> ToolResult: ...

    @property
    def forbidden(self) -> LLMErrorCause | None:
        """The cause of an interruption by an operator: a stop, or the activation of other rules."""

    @property
    def interrupted(self) -> bool:
        """True if the turn has been interrupted by its deadline, a cancellation, a shutdown or a crash: start no new call."""

    def reach_interruption(self) -> bool:
        """Return True if the turn is interrupted; if its record goes on with an interruption, that begins now."""
