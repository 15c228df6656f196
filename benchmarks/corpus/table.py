"""The table of the corpus."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.corpus.chain import Found
from benchmarks.corpus.packages import Package

_HEAD = (
    "| server | starts | tools | may change | always ask | conditions | unseen | minutes | failed |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """The result of one package."""

    package: Package
    starts: str
    found: Found | None
    seconds: float

    def markdown(self) -> str:
        """Return the row. It has no text of the server."""
        cells = [f"`{self.package.name}` ({self.package.registry})", self.starts]
        if self.found is None:
            cells += ["", "", "", "", ""]
        else:
            one = self.found
            tools = f"{one.tools}, {one.left_out} left out" if one.left_out else str(one.tools)
            cells += [tools, *(str(number) for number in (one.tools - one.reads, one.asks, one.conditions, one.unseen))]
        failed = "" if self.found is None else ", ".join(dict.fromkeys(text.partition(":")[0] for text in self.found.failures))
        return f"| {' | '.join([*cells, f'{self.seconds / 60:.1f}', failed])} |"


def table(rows: list[Row]) -> str:
    """Return the table in Markdown, and the sums."""
    started = [row for row in rows if row.found is not None]
    tools = sum(row.found.tools for row in started if row.found)
    left_out = sum(row.found.left_out for row in started if row.found)
    failed = sum(bool(row.found.failures) for row in started if row.found)
    text = f"{len(started)} of {len(rows)} servers start; they have {tools} tools, and {left_out} more that cannot be used."
    return "\n".join([*_HEAD, *(row.markdown() for row in rows), "", f"{text} {failed} servers with a failed step."])
