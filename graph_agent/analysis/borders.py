"""The border of a rule, by example: a call that still runs, and would not with a slightly stricter rule."""

from __future__ import annotations

import z3

from graph_agent.analysis.encoding import outcomes
from graph_agent.analysis.examples import Example, find_example
from graph_agent.analysis.questions import Analysis, formulas
from graph_agent.analysis.symbols import Unencodable
from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.policy.compiled import CompiledPolicy


def border_example(policy: CompiledPolicy, stricter: CompiledPolicy, tool: str, seconds: float) -> Example | None:
    """Return a call of a tool that runs without a yes under `policy`, and not under `stricter`.

    None if there is none, if it is not found in time, or if the guard decides otherwise about it.
    """
    analysis = Analysis(policy, stricter, seconds=seconds)
    try:
        call = analysis.call(tool, policy)
        known = [*formulas(analysis.facts_about_calls(policy), call), *call.without_approvals]
        runs, others = (outcomes(call, one, {}).silent for one in (policy, stricter))
        if (found := analysis.possible(call, *known, runs, z3.Not(others))) is None:
            return None
        stopped = [one for one in Verdict if one is not Verdict.RUNS]
        example = find_example(found, call, [(policy, [Verdict.RUNS]), (stricter, stopped)])
    except (Unencodable, z3.Z3Exception):
        return None
    return example if example.confirmed else None
