"""Verification of plans that people have agreed to against what the log has stated about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from graph_agent.db import Database
from graph_agent.models.mandate import MandateState, Plan
from graph_agent.record.mandates import plans_of_all
from graph_agent.record.tamper.tree_check import read_all
from graph_agent.record.tamper.violations import ViolationKind, ViolationList
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind

Draws = Mapping[str, Mapping[str, Sequence[int]]]
"""By plan and by conversation, the line of each call that counts."""


async def check_mandates(
    database: Database,
    sealer: Sealer,
    statements: Sequence[Statement],
    drawn: Sequence[Mapping[str, int]],
    counted: Sequence[Draws],
    violations: ViolationList,
) -> None:
    """Report plans that were written or put in force again by hand, and calls that a plan did not permit.

    `drawn` has the number of calls that the records have under each plan, and `counted` those that count, in parts. Rows that
    are gone were pruned, or erased with their user.
    """
    stated = {one.mandate: one.count or 0 for one in statements if one.statement is StatementKind.REVOKED and one.mandate}
    lines = _lines_by_run(counted)
    for mandate_id, found in (await read_all(database, partial(plans_of_all, sealer=sealer))).items():
        if found is None:
            violations.add(ViolationKind.EDITED, f"the plan {mandate_id} was added or changed by hand: it covers no call")
            continue
        state, plan = found
        for text in _excess(plan, lines[mandate_id]):
            violations.add(ViolationKind.EDITED, f"{text} the plan {mandate_id}: its draws were changed by hand")
        if (state is MandateState.REVOKED) != (mandate_id in stated):
            revived = "is not revoked, and the log has stated that it is"
            how = revived if mandate_id in stated else "is revoked, and the log has not stated it"
            violations.add(ViolationKind.EDITED, f"the plan {mandate_id} {how}: it was changed by hand")
    recorded: Counter[str] = Counter()
    for part in drawn:
        recorded.update(part)
    for mandate_id, most in stated.items():
        if recorded[mandate_id] > most:
            text = f"{recorded[mandate_id]} calls ran under the plan {mandate_id}, of which {most} were drawn before its end"
            violations.add(ViolationKind.EDITED, text)


def _lines_by_run(counted: Sequence[Draws]) -> dict[str, dict[str, Counter[int]]]:
    """Return how often each line was drawn, by plan and by conversation."""
    lines: dict[str, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for part in counted:
        for mandate_id, runs in part.items():
            for conversation_id, numbers in runs.items():
                lines[mandate_id][conversation_id].update(numbers)
    return lines


def _excess(plan: Plan, runs: Mapping[str, Counter[int]]) -> Iterator[str]:
    """Yield what the records have more than a plan permits, as the beginning of a sentence."""
    if len(runs) > plan.runs:
        yield f"{len(runs)} conversations, and not {plan.runs}, have calls under"
    for numbers in runs.values():
        for number, line in enumerate(plan.lines, 1):
            if numbers[number] > line.times:
                yield f"{numbers[number]} calls, and not {line.times}, ran in one conversation under line {number} of"
