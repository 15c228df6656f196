"""Verification of stops against what the log has stated about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graph_agent.db import Database
from graph_agent.record.stops import ended_without_mac, list_stops
from graph_agent.record.tamper.tree_check import read_all
from graph_agent.record.tamper.violations import ViolationKind, ViolationList
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind


async def check_stops(database: Database, sealer: Sealer, statements: Sequence[Statement], violations: ViolationList) -> None:
    """Report stops that were deleted, or ended without the key, by hand. One that was written by hand counts as any other."""
    stated = {one.number for one in statements if one.statement is StatementKind.STOPPED}
    resumed = {one.number for one in statements if one.statement is StatementKind.RESUMED}
    stored = await read_all(database, partial(list_stops, limit=None))
    for number in sorted(number for number in stated - {stop.number for stop in stored} if number is not None):
        violations.add(ViolationKind.REMOVED, f"the stop {number} is missing, which the log has stated: it was deleted by hand")
    forged = {stop.number for stop in await read_all(database, partial(ended_without_mac, sealer=sealer))}
    for stop in stored:
        if stop.number in forged:
            violations.add(ViolationKind.EDITED, f"the stop {stop.number} was ended by hand: it goes on")
        elif (stop.ended_at is not None) != (stop.number in resumed):
            how = "has an end that the log has not stated" if stop.ended_at else "goes on, and the log has stated its end"
            violations.add(ViolationKind.EDITED, f"the stop {stop.number} {how}: it was changed by hand")
