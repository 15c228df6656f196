"""Simulated replicas keep their promises under faults, and a seed always gives the same history."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.invariants.approval_model import PLANTED
from tests.simulation.planted import DEFECTS, OF_APPROVALS, compile_changed
from tests.simulation.run import simulate

_SEEDS_PER_TEST = 10
_FIRST_SEEDS = range(1, 51, _SEEDS_PER_TEST)
_QUICKLY_FOUND = "a path that was walked twice is kept in the record"

# Many take tens of seconds of processor time, of which a busy machine gives them little.
pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize(
    "first", [_FIRST_SEEDS[0], *(pytest.param(first, marks=pytest.mark.slow) for first in _FIRST_SEEDS[1:])]
)
def test_no_seed_violates_a_promise(first: int) -> None:
    found = {seed: simulate(seed).violations for seed in range(first, first + _SEEDS_PER_TEST)}
    assert {seed: violations for seed, violations in found.items() if violations} == {}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_can_be_planted_in_the_source_as_it_is_now(defect: str) -> None:
    """So that a change of the package cannot take a defect away from the nightly test unnoticed."""
    compile_changed(DEFECTS[defect])


def test_each_mistake_of_the_model_of_approvals_is_a_planted_defect() -> None:
    assert list(OF_APPROVALS) == list(PLANTED)
    assert set(OF_APPROVALS.values()) <= set(DEFECTS)


def _marked(defect: str) -> object:
    if defect == _QUICKLY_FOUND:
        return defect
    # Those of the protocol of an approval request are found within the 50 seeds that CI runs.
    return pytest.param(defect, marks=pytest.mark.slow if defect in OF_APPROVALS else pytest.mark.nightly)


@pytest.mark.parametrize("defect", [_marked(name) for name in DEFECTS])
def test_a_planted_defect_is_found_and_its_seed_replays(defect: str) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--defect", defect, "--until-found", "--seeds", "2000"]
    finished = subprocess.run([*command, "--processes", "1"], capture_output=True, text=True, check=False)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    found, again, *_ = finished.stdout.splitlines()
    seed = found.partition(":")[0]
    assert again == f"{seed} again: the same history"


# The test of a planted defect runs a seed in two processes, too, but both have the same hashes.
@pytest.mark.parametrize(
    "seeds", [pytest.param(range(1, 3), marks=pytest.mark.slow), pytest.param(range(3, 8), marks=pytest.mark.nightly)]
)
def test_a_seed_gives_the_same_history_in_every_process(seeds: range) -> None:
    """Another process has other hashes and addresses, and has imported in another order."""
    here = [simulate(seed).digest for seed in seeds]
    assert [simulate(seed).digest for seed in reversed(seeds)] == here[::-1]
    program = f"from tests.simulation.run import simulate\nfor seed in {list(seeds)}: print(simulate(seed).digest)"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.split() == here
