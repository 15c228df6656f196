"""The pins of `deploy/constraints.txt`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINS = (ROOT / "deploy/constraints.txt").read_text(encoding="utf-8")


def test_every_pin_has_hashes_and_none_names_a_registry() -> None:
    pins = re.split(r"\n(?! )", PINS.strip())
    assert [
        pin for pin in pins if not re.fullmatch(r"[\w.-]+==\S+( ;[^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", pin)
    ] == []
    assert "://" not in PINS


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = [
        *project["project"]["dependencies"],
        *(one for extra in extras for one in extra),
        *project["build-system"]["requires"],
    ]
    names = {re.split(r"[^\w.-]", one)[0].lower() for one in wanted} - {"graph-agent"}
    assert names <= set(re.findall(r"^([\w.-]+)==", PINS, re.MULTILINE))
