"""Verification of plans that people have agreed to against what the log has stated about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from graph_agent.db import Database
from graph_agent.models.mandate import MandateState
from graph_agent.record.mandates import states_of_all
from graph_agent.record.tamper.tree_check import read_all
from graph_agent.record.tamper.violations import ViolationKind, ViolationList
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind


async def check_mandates(
    database: Database,
    sealer: Sealer,
    statements: Sequence[Statement],
    drawn: Sequence[Mapping[str, int]],
    violations: ViolationList,
) -> None:
    """Report plans that were written or put in force again by hand, and calls that were drawn after a revocation.

    `drawn` has the calls that the records have under each plan. Rows that are gone were pruned, or erased with their user.
    """
    stated = {one.mandate: one.count or 0 for one in statements if one.statement is StatementKind.REVOKED and one.mandate}
    for mandate_id, state in (await read_all(database, partial(states_of_all, sealer=sealer))).items():
        if state is None:
            violations.add(ViolationKind.EDITED, f"the plan {mandate_id} was added or changed by hand: it covers no call")
        elif (state is MandateState.REVOKED) != (mandate_id in stated):
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
