"""A yes is for the values that were shown and judged, and for no others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.invariants.shown_mistakes import MISTAKES
from tests.invariants.shown_values import first_violation
from tests.simulation.planted import compile_changed


def test_a_yes_makes_a_call_only_if_every_value_is_as_it_was_at_the_question() -> None:
    assert first_violation() is None


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_about_shown_values_is_found(mistake: str) -> None:
    program = f"""
from tests.invariants.shown_mistakes import MISTAKES
from tests.simulation.planted import plant
plant(MISTAKES[{mistake!r}])
from tests.invariants.shown_values import first_violation
print(first_violation())
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.startswith(f"{mistake}: "), printed


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_about_shown_values_can_be_planted_in_the_source_as_it_is_now(mistake: str) -> None:
    compile_changed(MISTAKES[mistake])
