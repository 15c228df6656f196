"""What `make test` says at its start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.run_time import CPU_MINUTES, expected_time


def test_the_first_run_is_estimated_and_the_next_ones_name_the_last(tmp_path: Path) -> None:
    last = tmp_path / "last_run"
    processors = os.cpu_count() or 1
    about = max(1, round(CPU_MINUTES / processors))
    assert expected_time(last) == f"All tests: about {about} minutes on {processors} processors, if nothing else uses them."
    last.write_text("431.2")
    assert expected_time(last) == "All tests: the last run took 7 minutes here."


@pytest.mark.parametrize("text", ["", "soon"])
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    last = tmp_path / "last_run"
    last.write_text(text)
    assert "about" in expected_time(last)
