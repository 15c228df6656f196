"""The check of chains: every link is recomputed from the stored record, and every row is compared with its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, Dialect, func, select

from graph_agent.db import Database
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.record.chain import Sealer
from graph_agent.record.chain_tables import record_chains, record_links
from graph_agent.record.projection import call_rows, decision_row, invocation_rows
from graph_agent.record.statements import read
from graph_agent.record.tables import decision_logs, llm_call_logs, tool_invocation_logs
from graph_agent.record.tamper.heads import ChainHead
from graph_agent.record.tamper.row_comparison import raw_rows_by_decision, row_differences, select_raw
from graph_agent.record.tamper.violations import ViolationKind, ViolationList

READ_SECONDS = 60.0
"""Time limit of each read: it is long because a verification competes with writers."""

SEGMENT = 2_000
"""Links of a segment: a multiple of the links of a read, so that segments are read like the whole chain."""
_LINKS_PER_READ = 200
_NEIGHBOURS = 50
"""The number of positions around a broken link that are tried, to find where its record was sealed."""


class Segment(NamedTuple):
    """The links of a chain after the position `after`, whose seal is `mac`, up to the position `last`.

    `end` is the length of the chain. The link at a border is the last one of its segment, and its seal is where the next
    segment begins: so every link is checked against the one before it, also where two processes check the two segments.
    """

    chain: str
    after: int
    mac: str
    last: int
    end: int

    @property
    def is_first(self) -> bool:
        return self.after == 0


Progress = Callable[[int, int], None]
"""Called with the number of checked records and the total."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Consecutive links of one chain with all rows that belong to them, read in one transaction."""

    dialect: Dialect
    chain: Any
    """The row of the chain, None if it is missing."""
    links: Sequence[Any]
    decisions: Mapping[str, Any]
    invocations: Mapping[str, list[Any]]
    calls: Mapping[str, list[Any]]


@dataclass(slots=True)
class ChainCheck:
    """A walk over chains, section by section; violations and counts add up over all segments."""

    database: Database
    sealer: Sealer
    violations: ViolationList
    records: int = 0
    pruned: int = 0
    referenced_texts: dict[str, str] = field(default_factory=dict)
    """Digests of shared texts, each with one decision that references it."""

    async def check(self, segment: Segment) -> None:
        """Check one segment of a chain, and with the first one the signatures of the chain."""
        _, position, mac, last, end = segment
        chain, first = segment.chain, segment.is_first
        while first or position < last:
            section = await read(self.database, _read_section(chain, position, last), seconds=READ_SECONDS)
            sealer = self._sealer_of(chain, section.chain, report=segment.is_first)
            if sealer is None:
                return
            if first:
                self._check_signatures(section.chain, end, sealer)
            first = False
            if section.chain.cut_n > position:
                # The start of the chain is pruned, possibly while it was being read: continue after the prune marker.
                self.pruned += min(section.chain.cut_n, last) - position
                position, mac = section.chain.cut_n, section.chain.cut_mac
            links = [link for link in section.links if link.n > position]
            if links:
                mac = self._check_links(section, sealer, links, position, mac)
                position = links[-1].n
            elif not section.links:
                return

    async def check_decision(self, decision_id: str) -> None:
        """Check the link, the record and the rows of one closed decision, and the signatures of its chain."""
        found = await read(self.database, _read_links(decision_id), seconds=READ_SECONDS)
        if not found:
            text = f"decision {decision_id} is in no chain"
            self.violations.add(ViolationKind.ADDED, text, decision_id=decision_id)
        for link, before, last in found:
            section = await read(self.database, _read_section(link.chain, link.n - 1, link.n), seconds=READ_SECONDS)
            sealer = self._sealer_of(link.chain, section.chain, report=True)
            if sealer is not None:
                self._check_signatures(section.chain, last, sealer)
                mac = section.chain.cut_mac if section.chain.cut_n == link.n - 1 else before
                self._check_links(section, sealer, section.links, link.n - 1, mac or "")

    def _sealer_of(self, chain: str, row: Any, *, report: bool) -> Sealer | None:
        """Return the sealer of a chain, None if no seal of it can be verified. A chain has one key: that of its process."""
        if not report:
            return None if row is None else self.sealer.of_key(row.key_id)
        if row is None:
            self.violations.add(ViolationKind.REMOVED, f"chain {chain} is missing", chain=chain)
            return None
        sealer = self.sealer.of_key(row.key_id)
        if sealer is None:
            with_key = "without a key" if row.key_id is None else "with another key"
            text = f"chain {chain} was sealed {with_key}: it cannot be verified"
            self.violations.add(ViolationKind.SIGNATURE, text, chain=chain)
        return sealer

    def _check_signatures(self, chain: Any, end: int, sealer: Sealer) -> None:
        """Check the signatures in the chain's own row; `end` is the position of its last link."""
        if chain.signature != sealer.head(chain.chain, chain.signed_n, chain.signed_mac):
            text = f"the signature of the head of chain {chain.chain} is invalid"
            self.violations.add(ViolationKind.SIGNATURE, text, chain=chain.chain)
        elif end < chain.signed_n:
            text = f"the end of chain {chain.chain} is missing: it is signed up to {chain.signed_n} and stops at {end}"
            self.violations.add(ViolationKind.REMOVED, text, chain=chain.chain)
        marker = (chain.chain, chain.cut_n, chain.cut_mac)
        # A chain that was sealed with a previous key is pruned with the current one.
        if chain.cut_n and not self.sealer.accepts(chain.cut_signature, lambda one: one.prune_marker(*marker)):
            text = f"the start of chain {chain.chain} was pruned without a valid signature"
            self.violations.add(ViolationKind.SIGNATURE, text, chain=chain.chain)

    def _check_links(self, section: _Section, sealer: Sealer, links: Sequence[Any], position: int, mac: str) -> str:
        """Check `links`, which follow `position` and its seal `mac`; return the seal of the last one."""
        broken: list[tuple[Any, str]] = []
        seals = {position: mac}
        for link in links:
            where = {"decision_id": link.decision_id, "chain": link.chain, "n": link.n}
            follows = link.n == position + 1
            if not follows:
                missing = f"record {position + 1}" if link.n == position + 2 else f"records {position + 1} to {link.n - 1}"
                verb = "is" if link.n == position + 2 else "are"
                text = f"{missing} of chain {link.chain}, before decision {link.decision_id}, {verb} missing with the link"
                self.violations.add(ViolationKind.REMOVED, text, chain=link.chain, n=position + 1)
            row = section.decisions.get(link.decision_id)
            if link.cut is not None:
                self._check_pruned(link, where)
            elif row is None or row.record is None:
                self.records += 1
                self.violations.add(ViolationKind.REMOVED, f"the record of decision {link.decision_id} is missing", **where)
            else:
                self.records += 1
                if follows and sealer.link(link.chain, link.n, mac, row.record) != link.mac:
                    broken.append((link, row.record))
                self._check_rows(section, row)
            position, mac = link.n, link.mac
            seals[position] = mac
        # Only now, because a record that was moved may have been sealed at a later position.
        for link, record in broken:
            self._report_broken(link, record, seals, sealer)
        return mac

    def _check_pruned(self, link: Any, where: Mapping[str, Any]) -> None:
        if self.sealer.accepts(link.cut, lambda one: one.pruned(link.chain, link.n, link.mac, link.decision_id)):
            self.pruned += 1
            return
        self.records += 1
        text = f"decision {link.decision_id} was pruned without a valid signature"
        self.violations.add(ViolationKind.SIGNATURE, text, **where)

    def _report_broken(self, link: Any, record: str, seals: Mapping[int, str], sealer: Sealer) -> None:
        """Report a record that does not match its seal: as moved if it was sealed at a position nearby, else as edited."""
        where = {"decision_id": link.decision_id, "chain": link.chain, "n": link.n}
        near = sorted(seals.items(), key=lambda item: abs(item[0] - link.n))[:_NEIGHBOURS]
        for n in (position + 1 for position, _ in near):
            if any(sealer.link(link.chain, n, mac, record) == link.mac for _, mac in near):
                text = f"the record of decision {link.decision_id} is at position {link.n} and was sealed at position {n}"
                self.violations.add(ViolationKind.MOVED, text, **where)
                return
        text = f"the record of decision {link.decision_id} is not the one that was sealed"
        self.violations.add(ViolationKind.EDITED, text, **where)

    def _check_rows(self, section: _Section, row: Any) -> None:
        """Compare all rows of one decision with its record."""
        decision_id = row.decision_id
        try:
            record = DecisionRecord.model_validate_json(row.record)
            expected = {
                decision_logs: [decision_row(record)],
                tool_invocation_logs: invocation_rows(record),
                llm_call_logs: call_rows(record),
            }
        except ValidationError:
            text = f"the record of decision {decision_id} cannot be read"
            self.violations.add(ViolationKind.EDITED, text, decision_id=decision_id)
            return
        for name in record.header.digests.values():
            self.referenced_texts.setdefault(name, decision_id)
        stored = {
            decision_logs: [row],
            tool_invocation_logs: section.invocations.get(decision_id, []),
            llm_call_logs: section.calls.get(decision_id, []),
        }
        if record.entries and record.entries[0].kind is EntryKind.INTERRUPT:
            # The turn could not be replayed over its own entries and was closed without them. The rows that it wrote before are
            # the only evidence of its calls, and no record covers them.
            for table in (tool_invocation_logs, llm_call_logs):
                known = {row["sequence"] for row in expected[table]}
                stored[table] = [row for row in stored[table] if row.sequence in known]
        for table, rows in expected.items():
            for text in row_differences(section.dialect, table, rows, stored[table]):
                self.violations.add(ViolationKind.PROJECTION, f"decision {decision_id}: {text}", decision_id=decision_id)


async def split_chain(database: Database, end: ChainHead, size: int) -> list[Segment]:
    """Divide a chain up to `end` into segments of `size` links; links that are appended meanwhile are in none."""
    segments: list[Segment] = []
    position, mac = 0, ""
    while True:
        border = await read(database, _read_border(end, position, size), seconds=READ_SECONDS)
        if border is None or border.n >= end.n:
            return [*segments, Segment(end.chain, position, mac, end.n, end.n)]
        segments.append(Segment(end.chain, position, mac, border.n, end.n))
        position, mac = border.n, border.mac


def _read_border(end: ChainHead, after: int, size: int) -> Callable[[Connection], Any]:
    """Return a read of the link that is `size` links after a position, None if there are fewer."""
    columns = record_links.c
    links = select(columns.n, columns.mac).where(columns.chain == end.chain, columns.n > after, columns.n <= end.n)
    return lambda connection: connection.execute(links.order_by(columns.n).offset(size - 1).limit(1)).one_or_none()


def _read_section(chain: str, after: int, last: int) -> Callable[[Connection], _Section]:
    def work(connection: Connection) -> _Section:
        chain_row = connection.execute(select(record_chains).where(record_chains.c.chain == chain)).one_or_none()
        wanted = select(record_links).where(record_links.c.chain == chain, record_links.c.n > after, record_links.c.n <= last)
        links = connection.execute(wanted.order_by(record_links.c.n).limit(_LINKS_PER_READ)).all()
        decision_ids = [link.decision_id for link in links]
        decisions = connection.execute(select_raw(decision_logs).where(decision_logs.c.decision_id.in_(decision_ids)))
        return _Section(
            dialect=connection.dialect,
            chain=chain_row,
            links=links,
            decisions={row.decision_id: row for row in decisions},
            invocations=raw_rows_by_decision(connection, tool_invocation_logs, decision_ids),
            calls=raw_rows_by_decision(connection, llm_call_logs, decision_ids),
        )

    return work


def _read_links(decision_id: str) -> Callable[[Connection], list[tuple[Any, str | None, int]]]:
    """Return a read of the links of a decision, each with the seal before it and the length of its chain."""

    def work(connection: Connection) -> list[tuple[Any, str | None, int]]:
        found = []
        for link in connection.execute(select(record_links).where(record_links.c.decision_id == decision_id)).all():
            of_chain = record_links.c.chain == link.chain
            before = connection.scalar(select(record_links.c.mac).where(of_chain, record_links.c.n == link.n - 1))
            last = connection.scalar(select(func.max(record_links.c.n)).where(of_chain))
            found.append((link, before, last or link.n))
        return found

    return work
