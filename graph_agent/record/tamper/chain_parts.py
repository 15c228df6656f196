"""The check of the chains in parts, each of which any process that can open the log can check by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graph_agent.db import Database
from graph_agent.models.base import Frozen
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.statements import read
from graph_agent.record.tamper.chain_check import READ_SECONDS, SEGMENT, ChainCheck, Segment, split_chain
from graph_agent.record.tamper.heads import current_heads
from graph_agent.record.tamper.violations import Violation, ViolationList


class ChainPart(NamedTuple):
    """Consecutive segments, of one chain or of several short ones."""

    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        """The name of a file for its result."""
        first, last = self.segments[0], self.segments[-1]
        return f"{first.chain}_{first.after}_{first.mac[:16]}_{last.chain}_{last.last}"

    @property
    def links(self) -> int:
        """The number of its links, gaps included."""
        return sum(segment.last - segment.after for segment in self.segments)


class CheckedPart(Frozen):
    """The result of one part; `texts` are digests of shared texts, each with one decision that references it."""

    chains: int
    records: int
    pruned: int
    count: int
    violations: list[Violation]
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class ChainJob:
    """The input with which a process checks parts: the URL of the log, and the key that seals its chains."""

    database_url: str = field(repr=False)
    key: ChainKey = field(repr=False)


async def split_chains(database: Database, size: int | None = None) -> list[ChainPart]:
    """Divide all chains, oldest first, into parts of about `size` links (default: `SEGMENT`).

    Raises `ServiceError` STORAGE_ERROR.
    """
    wanted = size or SEGMENT
    parts: list[ChainPart] = []
    segments: list[Segment] = []
    for end in await read(database, current_heads, seconds=READ_SECONDS):
        for segment in await split_chain(database, end, wanted):
            segments.append(segment)
            if ChainPart(tuple(segments)).links >= wanted:
                parts.append(ChainPart(tuple(segments)))
                segments = []
    return [*parts, ChainPart(tuple(segments))] if segments else parts


async def check_part(database: Database, sealer: Sealer, part: ChainPart) -> CheckedPart:
    """Check the segments of one part. Raises `ServiceError` STORAGE_ERROR."""
    violations = ViolationList()
    check = ChainCheck(database, sealer, violations)
    for segment in part.segments:
        await check.check(segment)
    return CheckedPart(
        chains=sum(segment.is_first for segment in part.segments),
        records=check.records,
        pruned=check.pruned,
        count=violations.count,
        violations=violations.listed,
        texts=check.referenced_texts,
    )


async def check_stored_part(job: ChainJob, part: ChainPart) -> list[dict[str, Any]]:
    """Open the log and check one part; return its result as JSON."""
    database = Database.open(job.database_url)
    try:
        return [(await check_part(database, Sealer(job.key), part)).to_json()]
    finally:
        await database.close()
