"""Random processes that ask, answer and do what is due, killed at any moment, with clocks that are set: on both databases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.question.processes.planted import MISTAKES

ROOT = Path(__file__).parents[3]


def run(url: str, seconds: float, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the processes in a process of their own, which forks them."""
    command = [sys.executable, "-m", "tests.question.processes", url, "--seconds", str(seconds), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "minutes", [pytest.param(0.4, marks=pytest.mark.slow, id="short"), pytest.param(5, marks=pytest.mark.nightly, id="long")]
)
@pytest.mark.parametrize("options", [(), ("--steady",)], ids=["clock steps", "steady clock"])
def test_what_enough_people_approved_in_time_is_done_once_and_nothing_else(
    migrated_url: str, minutes: float, options: tuple[str, ...]
) -> None:
    result = run(migrated_url, 60 * minutes, *options)
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    for state in ("others: approved", "others: expired", "requester: approved", "requester: denied"):
        assert state in result.stdout


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(migrated_url: str, mistake: str) -> None:
    result = run(migrated_url, 20, "--mistake", mistake)
    assert result.returncode == 1, result.stdout
    assert "such as" in result.stdout, result.stderr[-2000:]
