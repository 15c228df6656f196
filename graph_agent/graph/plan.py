"""The question about a plan, which a model proposes in place of its first change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_agent.graph.batch import read_calls
from graph_agent.graph.card import done_before
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.decision import CONFIRMATION_LIFETIME, AfterYes, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Is
from graph_agent.policy.permitted_plan import narrowed
from graph_agent.policy.plan_check import PlanError, read_plan
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
    created_at = runtime.ports.now()
    pending = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=PROPOSE_PLAN,
        arguments=plan.to_json(),
        description=plan_card(plan, policy, sources, found),
        asked_under=policy.digests([line.tool for line in plan.lines]),
        created_at=created_at,
        expires_at=created_at + CONFIRMATION_LIFETIME,
        done_before=done_before(turn, policy),
        plan=plan,
        then=AfterYes.GO_ON,
    )
    pending = pending.replace(signature=runtime.ports.sign(pending))
    ending = Ending.of(EndingKind.AWAITING, by_code(fixed.pending_question(pending)))
    return turn.to("answered", pending=pending, ending=ending)
