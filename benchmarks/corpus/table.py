"""The table of the corpus."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.corpus.chain import Found
from benchmarks.corpus.packages import Package

_HEAD = (
    "| server | starts | tools | may change | conditions | unseen |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """The result of one package."""

    package: Package
    starts: str
    found: Found | None
    seconds: float

    @property
    def name(self) -> str:
        """The package and its registry."""
        return f"`{self.package.name}` ({self.package.registry})"

    @property
    def failed(self) -> str:
        """The steps that failed."""
        return "" if self.found is None else ", ".join(dict.fromkeys(text.partition(":")[0] for text in self.found.failures))

    def markdown(self) -> str:
        """Return the row. It has no text of the server."""
        cells = [self.name, self.starts]
        if self.found is None:
            cells += ["", "", "", ""]
        else:
            one = self.found
            tools = f"{one.tools}, {one.left_out} left out" if one.left_out else str(one.tools)
            cells += [tools, *(str(number) for number in (one.tools - one.reads, one.conditions, one.unseen))]
        return f"| {' | '.join(cells)} |"


def table(rows: list[Row]) -> str:
    """Return the table in Markdown, the sums, and the steps that failed."""
    started = [row.found for row in rows if row.found is not None]
    tools = sum(found.tools for found in started)
    left_out = sum(found.left_out for found in started)
    changes = sum(found.tools - found.reads for found in started)
    asks = sum(found.asks for found in started)
    text = (
        f"{len(started)} of {len(rows)} servers start; they have {tools} tools, and {left_out} more that cannot be used. "
        f"{asks} of the {changes} tools that may change something always ask."
    )
    failed = [f"{row.name}: {row.failed}" for row in rows if row.failed]
    return "\n".join([*_HEAD, *(row.markdown() for row in rows), "", f"{text} Failed steps: {'; '.join(failed) or 'none'}."])
