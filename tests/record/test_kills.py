"""Processes that are killed at a commit of closing or sealing: no leaf is lost, and none is in the tree twice."""

from __future__ import annotations

import asyncio
import itertools
import signal
from pathlib import Path

import pytest
from sqlalchemy import func, select

from graph_agent.db import Database
from graph_agent.record.tables import CLOSED, decision_logs
from graph_agent.record.tree.tables import tree_leaves
from tests import fork_server
from tests.record.trees import LOG_KEY, tree_of, verified


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.nightly), "after"])
async def test_a_process_killed_at_any_commit_loses_no_leaf_and_repeats_none(
    log: Database, database_url: str, when: str, tmp_path: Path
) -> None:
    head = tmp_path / "log.head"
    closed = select(func.count()).select_from(decision_logs).where(CLOSED)
    leaves = select(func.count(), func.count(tree_leaves.c.commitment.distinct())).select_from(tree_leaves)
    waiting = set()
    for number in itertools.count(1):
        arguments = [database_url, str(head), LOG_KEY.to_text(), str(number), when]
        command = [fork_server.python(), "-m", "tests.record.crashing_process", *arguments]
        status = await (await asyncio.create_subprocess_exec(*command)).wait()
        tree = tree_of(log, head=head)
        # What the process left is a valid log, and the next process completes it.
        report = await verified(log, tree)
        assert report.violations == [], number
        waiting.add(report.waiting)
        await tree.seal()
        report = await verified(log, tree)
        records = await log.read(lambda connection: connection.scalar(closed))
        counts = await log.read(lambda connection: tuple(connection.execute(leaves).one()))
        assert (report.violations, report.waiting, report.records, counts) == ([], 0, records, (records, records)), number
        if status == 0:
            break
        assert status == -signal.SIGKILL, number
    # Two decisions are opened, continued, closed and sealed.
    assert number > 6
    assert waiting == {0, 1, 2}
