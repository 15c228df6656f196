"""The solver of what a plan permits at most, if the extra for it is installed."""

from __future__ import annotations

import logging
from importlib.util import find_spec

from graph_agent.models.mandate import PermittedLine, Plan
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.ports import PlanSolver

_log = logging.getLogger(__name__)


def plan_solver() -> PlanSolver | None:
    """Return the solver of plans; None without the extra 'prove'."""
    return None if find_spec("z3") is None else _permitted


def _permitted(plan: Plan, policy: CompiledPolicy) -> list[PermittedLine]:
    # Imported for the first plan: the solver takes a second to load.
    from graph_agent.analysis.mandates import permitted

    try:
        return permitted(plan, policy)
    except Exception:
        # The bounds of the model are wider, and as true.
        _log.exception("what a plan permits at most could not be solved")
        return [PermittedLine(line) for line in plan.lines]
