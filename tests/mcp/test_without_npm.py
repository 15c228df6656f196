"""`make conformance` and `make foreign` on a machine without npm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("target", ["conformance", "foreign"])
def test_without_npm_it_says_that_it_skips(target: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.{target}"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "/nonexistent"},
        text=True,
        capture_output=True,
        check=True,
    )
    assert ran.stdout == f"{target}: skipped, because there is no npm\n"
