"""The verification of the log against its witnesses, and against the turns and operations of its installation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from graph_agent.bootstrap.maintenance import KEEP_OPERATIONS
from graph_agent.chat.conversations.comparing import answered_turns, turn_differences
from graph_agent.db import Database
from graph_agent.ledger.operations import OperationLedger
from graph_agent.record.settlements import operation_differences, successful_calls
from graph_agent.record.statements import read
from graph_agent.record.tamper.tree_check import READ_SECONDS, CheckedTree, Progress
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind, ViolationList
from graph_agent.record.tree.service import RecordTree
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.store import operations

_MARGIN = timedelta(days=1)
"""The sweeper may be about to remove an operation."""


_ID_LENGTH = 36
_CHANGES = [name for name, hints in TOOL_HINTS.items() if not hints.read_only]


async def verify_installation(
    database: Database,
    tree: RecordTree,
    *,
    reads: Database,
    shipped_tools: bool,
    offline: bool = False,
    on_progress: Progress | None = None,
    checked: CheckedTree | None = None,
) -> VerifyReport:
    """Verify the log, and that decisions, turns and changes of tasks name each other. See `verify_log`.

    The witnesses are asked first, unless `offline`. `reads` is a replica, or the database itself. It may be behind, so
    `database` is compared with the witnesses, turns and operations. Only with `shipped_tools` the operations of the decisions
    are in the ledger of `database`.
    """
    ledger, differences = OperationLedger(database, operations), ViolationList()
    report = await verify_log(
        reads,
        keys=tree.keys,
        key=tree.key,
        current=database,
        seen=[] if offline else await tree.seen_elsewhere(),
        witnesses=[witness.key for witness in tree.witnesses],
        references={
            "a turn": _compared(database, answered_turns(database), turn_differences, differences),
            "an operation": _compared(database, ledger.deciding(), partial(operation_differences, operations), differences),
        },
        on_progress=on_progress,
        checked=checked,
    )
    violations = ViolationList(report.count, list(report.violations))
    violations.extend(differences)
    if shipped_tools:
        await _find_missing_effects(database, ledger, violations)
    return report.replace(count=violations.count, violations=violations.listed)


async def _compared(
    database: Database, pages: AsyncIterator[Any], differences: Callable[[Sequence[str]], Any], violations: ViolationList
) -> AsyncIterator[list[tuple[str, datetime]]]:
    """Yield the decisions that pages of keys name, after what has these keys was compared with the decisions."""
    async for page in pages:
        for decision_id, what in await read(database, differences([key for key, _ in page]), seconds=READ_SECONDS):
            violations.add(ViolationKind.PROJECTION, f"decision {decision_id}: {what}", decision_id=decision_id)
        yield [(key[:_ID_LENGTH], at) for key, at in page]


async def _find_missing_effects(database: Database, ledger: OperationLedger, violations: ViolationList) -> None:
    """Report the successful calls whose operation is not in the ledger."""
    since = datetime.now(UTC) - KEEP_OPERATIONS + _MARGIN
    async for page in successful_calls(database, _CHANGES, since):
        absent = await ledger.absent([call.operation_key for call in page])
        for call in page:
            if call.operation_key in absent:
                text = f"call {call.sequence} of decision {call.decision_id} ({call.tool_name}) has no operation in the ledger"
                violations.add(ViolationKind.EFFECT, text, decision_id=call.decision_id)
