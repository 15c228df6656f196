"""Write the table of gates into its page: `make diagrams` runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from graph_agent.graph.diagram import gate_table

PAGE: Final = Path(__file__).parents[2] / "docs" / "architecture.md"
_TABLE: Final = re.compile(r"^\| gate \| a call passes if .*\n(?:\|.*\n)+", re.MULTILINE)


def with_table(page: str) -> str:
    """Return the text of a page with the table as it is now."""
    return _TABLE.sub(lambda _: gate_table(), page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
