"""The examples run, offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_library_desk_serves_another_domain() -> None:
    ran = subprocess.run([sys.executable, EXAMPLES / "library/run.py"], text=True, capture_output=True, check=True)
    assert ran.stdout == (
        "you> I'd like Moby-Dick\n"
        "Moby-Dick is yours for two weeks.\n"
        "  ✓ Lend book: mark = M 9\n"
        "you> burn Middlemarch\n"
        "I can't do that.\n"
        "you> here is Moby-Dick back\n"
        "Give back: mark = M 9. Should I go ahead? Please answer yes or no.\n"
        "you> yes\n"
        "Done: Give back: mark = M 9.\n"
        "  ✓ Give back: mark = M 9\n"
    )
