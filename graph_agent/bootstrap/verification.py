"""The verification of the log against the turns and operations of its installation."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.chat.conversations.reading import answered_turns
from graph_agent.db import Database
from graph_agent.ledger.operations import OperationLedger
from graph_agent.record.chain import ChainKey
from graph_agent.record.tamper.chain_check import Progress
from graph_agent.record.tamper.chain_parts import CheckedPart
from graph_agent.record.tamper.heads import SignedHeads
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.task_server.tables import operations


async def verify_installation(
    database: Database,
    *,
    reads: Database,
    key: ChainKey,
    heads: SignedHeads | None = None,
    on_progress: Progress | None = None,
    checked: Sequence[CheckedPart] | None = None,
) -> VerifyReport:
    """Verify the log, and that it has every decision that a turn or a change of a task names. See `verify_log`.

    `reads` is a replica, or the database itself. It may be behind, so `database` is compared with other sources.
    """
    references = {"a turn": answered_turns(database), "an operation": OperationLedger(database, operations).deciding()}
    return await verify_log(
        reads, current=database, key=key, heads=heads, references=references, on_progress=on_progress, checked=checked
    )
