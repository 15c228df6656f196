"""A reply in a terminal: its tables have aligned columns."""

from __future__ import annotations

from rich.cells import cell_len

from graph_agent.models.authors import TextPart
from graph_agent.models.decision import AgentDecision
from graph_agent.models.said import SaidTable
from graph_agent.reply.text import visible

_INDENT = "    "


def reply_of(decision: AgentDecision) -> str:
    """Return the reply of a decision for a terminal."""
    return decision.reply if decision.authors is None else "".join(map(text_of_part, decision.authors.reply))


def text_of_part(part: TextPart) -> str:
    """Return a part of a reply: a table with aligned columns, and any other text as it is."""
    return part.text if part.table is None else _aligned(part.table)


def _aligned(table: SaidTable) -> str:
    # A value keeps its quotes, so that none reads as a column or a line of its own.
    lines = [[*map(visible, table.columns)], *([visible(cell.text) for cell in row] for row in table.rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    drawn = [
        "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True)) for line in lines
    ]
    return "\n".join(f"{_INDENT}{line}".rstrip() for line in [*drawn, *([table.more] if table.more else [])])
