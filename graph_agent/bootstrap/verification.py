"""The verification of the log against its witnesses, and against the turns and operations of its installation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from graph_agent.bootstrap.maintenance import KEEP_OPERATIONS
from graph_agent.chat.conversations.reading import answered_turns
from graph_agent.db import Database
from graph_agent.ledger.operations import OperationLedger
from graph_agent.record.settlements import successful_calls
from graph_agent.record.tamper.tree_check import CheckedPart, Progress, TreeDivision
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind, ViolationList
from graph_agent.record.tree.service import RecordTree
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.tables import operations

_MARGIN = timedelta(days=1)
"""The sweeper may be about to remove an operation."""


_CHANGES = [name for name, hints in TOOL_HINTS.items() if not hints.read_only]


async def verify_installation(
    database: Database,
    tree: RecordTree,
    *,
    reads: Database,
    shipped_tools: bool,
    offline: bool = False,
    on_progress: Progress | None = None,
    checked: tuple[TreeDivision, Sequence[CheckedPart]] | None = None,
) -> VerifyReport:
    """Verify the log, and that decisions, turns and changes of tasks name each other. See `verify_log`.

    The witnesses are asked first, unless `offline`. `reads` is a replica, or the database itself. It may be behind, so
    `database` is compared with the witnesses, turns and operations. Only with `shipped_tools` the operations of the decisions
    are in the ledger of `database`.
    """
    ledger = OperationLedger(database, operations)
    report = await verify_log(
        reads,
        keys=tree.keys,
        key=tree.key,
        current=database,
        seen=[] if offline else await tree.seen_elsewhere(),
        references={"a turn": answered_turns(database), "an operation": ledger.deciding()},
        on_progress=on_progress,
        checked=checked,
    )
    return await _with_missing_effects(report, database, ledger) if shipped_tools else report


async def _with_missing_effects(report: VerifyReport, database: Database, ledger: OperationLedger) -> VerifyReport:
    """Return the report with the successful calls whose operation is not in the ledger."""
    violations = ViolationList(report.count, list(report.violations))
    since = datetime.now(UTC) - KEEP_OPERATIONS + _MARGIN
    async for page in successful_calls(database, _CHANGES, since):
        absent = await ledger.absent([call.operation_key for call in page])
        for call in page:
            if call.operation_key in absent:
                text = f"call {call.sequence} of decision {call.decision_id} ({call.tool_name}) has no operation in the ledger"
                violations.add(ViolationKind.EFFECT, text, decision_id=call.decision_id)
    return report.replace(count=violations.count, violations=violations.listed)
