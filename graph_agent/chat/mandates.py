"""The plans that a user has agreed to: their list, and their revocation by the user."""

from __future__ import annotations

from typing import Literal

from graph_agent.chat.page_keys import key_of, next_after
from graph_agent.chat.session import ChatStores
from graph_agent.errors import (
    ConfigurationError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    service_not_ready,
    service_unavailable,
)
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.mandate import MandateState, MandateView, Plan
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.record.mandates import list_mandates, revoke_own
from graph_agent.record.tree.leaves import Sealer
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.recorded_plan import Repeatable
from graph_agent.words.plan import plan_lines


class MandateLine(Frozen):
    """One line of a plan that a user has agreed to."""

    tool: str
    said: str
    """The line as its card has it: `Refund: amount up to 50; order = "W1"`."""
    drawn: int
    """The number of calls that ran under it, or whose outcome is not known; of a standing plan, in all its runs."""
    times: int
    """The number of calls that it permits; of a standing plan, in each run."""


class MandateSummary(Frozen):
    """A plan that its user has agreed to, with its state and what was drawn from it."""

    id: str
    """The id of the question that was answered with a yes."""
    state: MandateState
    """`open` if it still covers calls. One under other rules than those in force is void."""
    conversation_id: str
    """The conversation of the yes. Without a job it covers calls of this conversation alone."""
    job: str
    """The job of a standing plan, which covers calls of the runs of this job alone; else empty."""
    runs_drawn: int
    """The number of runs that have drawn from a standing plan; 0 without a job."""
    runs: int
    """The number of runs that a standing plan permits; 1 without a job."""
    decision_id: str
    """The decision of the yes."""
    lines: list[MandateLine]
    created_at: UtcDatetime
    until: UtcDatetime
    ended_at: UtcDatetime | None
    ended_by: Literal["you", "operator"] | None
    """The one who has revoked it: its user, or an operator, also by a stop."""


class PlanOfDecision(Frozen):
    """The plan that does the changes of a decision again, as code makes it from the record."""

    plan: Plan | None
    """None if no line permits anything of it. Its lines are those that `POST` takes, also fewer or narrower ones."""
    said: list[str]
    """The lines in the words of the card."""
    usual_minutes: int
    """The time if none is chosen; 0 without a plan."""
    left_out: list[str]
    """The sentences about the changes that no line permits."""
    problem: str | None
    """The reason why there is no plan, a sentence."""


class MandateList(Frozen):
    """A page of the plans that the caller has agreed to."""

    mandates: list[MandateSummary]
    next: str | None
    """The `before` of the next page; None after the last one."""


class MandateService:
    """The plans that users have agreed to, as each sees their own. Methods raise `ServiceError`."""

    def __init__(self, engine: LLMAgentEngine, stores: ChatStores) -> None:
        self._engine = engine
        self._database = stores.audit.database
        self._clock = stores.clock
        self._sealer = Sealer(stores.audit.record_key)

    async def page(
        self, user_id: str, *, conversation_id: str | None = None, size: int = 50, before: str | None = None
    ) -> MandateList:
        """Return a page of at most `size` plans, newest first, of all conversations or of one.

        `before` is the `next` of the page before it.
        """
        after, now = None if before is None else key_of(before), self._clock.now()
        found = await self._database.read(
            lambda connection: list_mandates(
                connection, now, user_id=user_id, conversation_id=conversation_id, after=after, limit=size
            )
        )
        policy = await self._policy() if found else None
        listed = [_summary(view, policy) for view in found if policy is not None]
        last = found[-1].mandate if len(found) == size else None
        return MandateList(mandates=listed, next=None if last is None else next_after(last.created_at, last.id))

    async def of_decision(self, user_id: str, decision_id: str, job: str = "") -> PlanOfDecision:
        """Return the plan that does a decision of the user again, or a standing one for a job. Raises DECISION_NOT_FOUND."""
        found = await self.repeatable(user_id, decision_id, job)
        said = [] if found.plan is None else plan_lines(found.plan, await self._policy(), found.sources)
        return PlanOfDecision(
            plan=found.plan,
            said=said,
            usual_minutes=found.usual_minutes,
            left_out=list(found.left_out),
            problem=found.problem,
        )

    async def repeatable(self, user_id: str, decision_id: str, job: str = "") -> Repeatable:
        """Return what of a decision of the user a plan permits again. Raises DECISION_NOT_FOUND."""
        try:
            return (await self._engine.repeatable(decision_id, user_id, job))[1]
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc
        except ConfigurationError as exc:
            raise service_not_ready() from exc

    async def revoke(self, mandate_id: str, user_id: str) -> MandateSummary:
        """End a plan of the user, and return it: from now on it covers no call. One that has ended stays as it is.

        Raises MANDATE_NOT_FOUND.
        """
        now = self._clock.now()
        found = await self._database.write(
            lambda connection: revoke_own(connection, mandate_id, user_id, now, self._database.time(), self._sealer)
        )
        if found is None:
            raise ServiceError(ServiceErrorCode.MANDATE_NOT_FOUND, "There is no such plan.")
        return _summary(found, await self._policy())

    async def _policy(self) -> CompiledPolicy:
        try:
            return (await self._engine.prepare()).policy
        except ConfigurationError as exc:
            raise service_not_ready() from exc


def _summary(view: MandateView, policy: CompiledPolicy) -> MandateSummary:
    mandate, state = view.mandate, view.state
    if state is MandateState.OPEN and policy.differences(mandate.asked_under):
        # The next call that looks for it ends it.
        state = MandateState.VOID
    said = plan_lines(mandate.plan, policy)
    lines = zip(mandate.lines, said, view.drawn, strict=True)
    own = view.ended_by == mandate.user_id
    return MandateSummary(
        id=mandate.id,
        state=state,
        conversation_id=mandate.conversation_id,
        job=mandate.plan.job,
        runs_drawn=view.runs,
        runs=mandate.plan.runs,
        decision_id=mandate.decision_id,
        lines=[MandateLine(tool=line.tool, said=words, drawn=drawn, times=line.times) for line, words, drawn in lines],
        created_at=mandate.created_at,
        until=mandate.until,
        ended_at=view.ended_at,
        ended_by=None if state is not MandateState.REVOKED else "you" if own else "operator",
    )
