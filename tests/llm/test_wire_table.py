from __future__ import annotations

from pathlib import Path

from tests.llm.wire_table import page


def test_the_page_matches_the_scenarios() -> None:
    written = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m tests.llm.wire_table > docs/wire.md"
