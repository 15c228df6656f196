"""The maintenance of an installation: the jobs of the sweepers, and the verification of the log.

One of the sweepers does the jobs: seal and witness the log, delete rows past their retention, count full hours. The log is
verified against its witnesses, and against the turns and operations of its installation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from graph_agent.audit.metric_counts import count_hours
from graph_agent.audit.retention import prune
from graph_agent.bootstrap.stores import Stores
from graph_agent.chat.conversations.comparing import answered_turns, turn_differences
from graph_agent.chat.conversations.pruning import prune_conversations
from graph_agent.db import Database
from graph_agent.due.table import DueTable
from graph_agent.ledger.operations import LONGEST_TURN, OperationLedger
from graph_agent.ports import Clock
from graph_agent.record.partitions import CREATED_AHEAD, create_days
from graph_agent.record.settlements import find_confirmed_keys, operation_differences, successful_calls
from graph_agent.record.statements import write
from graph_agent.record.tamper.tree_check import CheckedTree, Progress, read_all
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind, ViolationList
from graph_agent.record.tree.service import RecordTree
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.store import operations

KEEP_OPERATIONS = timedelta(days=60)
"""Retention of ledger rows. Longer than that of turns, because a turn that is resumed looks its operation keys up."""

_MARGIN = timedelta(days=1)
"""The sweeper may be about to remove an operation."""
_ID_LENGTH = 36
_CHANGES = [name for name, hints in TOOL_HINTS.items() if not hints.read_only]


def maintenance_jobs(stores: Stores, tree: RecordTree, *, clock: Clock, days: int) -> list[Callable[[], Awaitable[int]]]:
    """Return the jobs in the order in which a sweeper runs them; `days` is the retention of decisions."""

    async def prune_log() -> int:
        now = clock.now()
        return (await prune(stores.database, now - timedelta(days=days), now=now, key=tree.key, whole_days=True)).decisions

    create_partitions, seal, push, count = record_jobs(stores, tree, clock=clock)
    return [
        lambda: stores.database.write(DueTable(stores.database).remove_stuck),
        lambda: prune_conversations(stores.database, clock.now()),
        lambda: OperationLedger(stores.database, operations).prune(clock.now() - KEEP_OPERATIONS),
        create_partitions,
        # Before the pruning, which keeps what is not in the tree; what it removes is stated by a later seal.
        seal,
        prune_log,
        push,
        # After the pruning, which removes the counts of the oldest hour.
        count,
    ]


def record_jobs(stores: Stores, tree: RecordTree, *, clock: Clock) -> list[Callable[[], Awaitable[int]]]:
    """Return the jobs of a record without conversations: create partitions, seal, show to witnesses, count full hours."""

    async def create_partitions() -> int:
        now = clock.now()
        return await write(stores.database, lambda connection: create_days(connection, now, now + CREATED_AHEAD))

    return [create_partitions, tree.seal, tree.push, lambda: count_hours(stores.database, clock.now())]


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
            "an operation": _compared(
                database,
                _without_confirmed(database, ledger.deciding()),
                partial(operation_differences, operations),
                differences,
            ),
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
        for decision_id, what in await read_all(database, differences([key for key, _ in page])):
            violations.add(ViolationKind.PROJECTION, f"decision {decision_id}: {what}", decision_id=decision_id)
        yield [(key[:_ID_LENGTH], at) for key, at in page]


async def _without_confirmed(
    database: Database, pages: AsyncIterator[list[tuple[str, datetime]]]
) -> AsyncIterator[list[tuple[str, datetime]]]:
    """Yield the pages of a ledger's keys DECISION:NUMBER without those of the further calls of a confirmed card."""
    async for page in pages:
        if not page:
            continue
        times = [at for _, at in page]
        # A page has the time of each operation less the longest turn; the clocks of two hosts may differ.
        since, until = min(times) - _MARGIN, max(times) + LONGEST_TURN + _MARGIN
        confirmed = await read_all(
            database, partial(find_confirmed_keys, keys=[key for key, _ in page], since=since, until=until)
        )
        yield [(key, at) for key, at in page if key not in confirmed]


async def _find_missing_effects(database: Database, ledger: OperationLedger, violations: ViolationList) -> None:
    """Report the successful calls whose operation is not in the ledger."""
    since = datetime.now(UTC) - KEEP_OPERATIONS + _MARGIN
    async for page in successful_calls(database, _CHANGES, since):
        absent = await ledger.absent([call.operation_key for call in page])
        for call in page:
            if call.operation_key in absent:
                text = f"call {call.sequence} of decision {call.decision_id} ({call.tool_name}) has no operation in the ledger"
                violations.add(ViolationKind.EFFECT, text, decision_id=call.decision_id)
