"""The question about a plan: one that a model proposes in place of its first change, or one from the record of a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graph_agent.graph.batch import read_calls
from graph_agent.graph.card import done_before
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.decision import AfterYes, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Is, PermittedLine, Plan, RecordedPlan
from graph_agent.models.sources import BatchSources
from graph_agent.policy.permitted_plan import narrowed
from graph_agent.policy.plan_check import PlanError, read_plan, require_permitted
from graph_agent.reply import fixed
from graph_agent.reply.authored import by_code
from graph_agent.reply.forms import PROPOSE_PLAN
from graph_agent.words.plan import plan_card


async def ask_about_plan(turn: Turn, runtime: TurnRuntime, proposed: Mapping[str, Any]) -> Turn | None:
    """Return the turn that ends with the question about a plan; None if the plan cannot be asked about.

    After a plan that the user has not agreed to, the message gets no second one, and a dry run asks nothing. A model that was
    not given the form may have invented it.
    """
    if turn.has_unwanted_plan or turn.context.dry_run or not runtime.snapshot.offers_plans:
        return None
    policy = runtime.snapshot.policy
    try:
        proposal = read_plan(proposed, policy)
    except PlanError:
        return None
    found = await runtime.ports.permitted(proposal)
    if (plan := narrowed(proposal, found)) is None:
        return None
    # The values that are known stand in the plan: the card says which of them others have written.
    literal = [
        FunctionCall(
            name=line.tool, arguments={name: list(one.values) for name, one in line.arguments.items() if isinstance(one, Is)}
        )
        for line in plan.lines
    ]
    sources = await runtime.ports.sources(literal, read_calls(turn, policy), needed=False)
    return _asked(turn.to("answered"), runtime, plan, found, sources)


async def ask_about_recorded_plan(turn: Turn, runtime: TurnRuntime, proposed: RecordedPlan) -> Turn:
    """Return the turn that ends with the question about a plan from the record of a decision.

    It ends with the reason instead if the rules that are in force now admit no such plan. Where the values of its lines came
    from is known from the record, also if the results in which they stood are gone.
    """
    turn, policy = turn.to("proposed"), runtime.snapshot.policy
    try:
        require_permitted(proposed.plan, policy)
    except PlanError:
        return _not_asked(turn)
    found = await runtime.ports.permitted(proposed.plan)
    if not runtime.snapshot.offers_plans or (plan := narrowed(proposed.plan, found)) is None:
        return _not_asked(turn)
    sources = [of for of, one in zip(proposed.sources, found, strict=True) if one.line is not None]
    return _asked(turn, runtime, plan, found, BatchSources(calls=sources), proposed.left_out)


def _not_asked(turn: Turn) -> Turn:
    return turn.to(turn.outcome, ending=Ending.of(EndingKind.ANSWER, by_code(fixed.NOTHING_OF_PLAN_RUNS)))


def _asked(
    turn: Turn,
    runtime: TurnRuntime,
    plan: Plan,
    found: Sequence[PermittedLine],
    sources: BatchSources | None,
    left_out: Sequence[str] = (),
) -> Turn:
    """Return the turn with the signed card of a plan, and the question about it as its end."""
    policy, created_at = runtime.snapshot.policy, runtime.ports.now()
    pending = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=PROPOSE_PLAN,
        arguments=plan.to_json(),
        description=plan_card(plan, policy, sources, found),
        changed_before=" ".join(left_out),
        asked_under=policy.digests([line.tool for line in plan.lines]),
        created_at=created_at,
        expires_at=created_at + turn.context.question_lifetime,
        done_before=done_before(turn, policy),
        plan=plan,
        job=turn.context.job,
        # A standing plan is in force in other conversations, so that nothing goes on in this one.
        then=AfterYes.END if plan.job else AfterYes.GO_ON,
    )
    pending = pending.replace(signature=runtime.ports.sign(pending))
    ending = Ending.of(EndingKind.AWAITING, by_code(fixed.pending_question(pending)))
    return turn.to(turn.outcome, pending=pending, ending=ending)
