"""Every transition of an approval request, raced by eight connections on both databases: one end, one closing decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graph_agent.models.approval import ApprovalState
from tests.approval_races.planted import MISTAKES, NEEDS_READ_COMMITTED
from tests.approval_races.race import race

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("requests", [40, pytest.param(3_000, marks=pytest.mark.nightly)])
async def test_eight_connections_race_and_each_request_has_one_end_and_one_closing_decision(
    migrated_url: str, requests: int
) -> None:
    outcome = await race(migrated_url, requests, seed=1)
    assert outcome.violations == {}
    assert outcome.states.total() == requests
    ends = {ApprovalState.APPROVED, ApprovalState.DENIED, ApprovalState.CANCELLED, ApprovalState.EXPIRED}
    assert ends <= set(outcome.states)


@pytest.mark.nightly
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_of_the_transitions_is_found(migrated_url: str, mistake: str) -> None:
    is_found = mistake not in NEEDS_READ_COMMITTED or not migrated_url.startswith("sqlite")
    command = [sys.executable, "-m", "tests.approval_races", migrated_url, "--requests", "200", "--mistake", mistake]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (run.returncode, run.stderr) == (int(is_found), ""), run.stdout
