"""Is the log still what was written? Every chain is walked from its start, every row held against its record.

Reading goes on in small pieces, each one consistent in itself, beside writers and pruning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Dialect, Table, func, select, type_coerce
from sqlalchemy.types import NullType

from graph_agent.record.chain import Seal
from graph_agent.record.chain_tables import RecordChain, RecordLink
from graph_agent.record.tamper.heads import Head, SignedHeads, current_heads
from graph_agent.record.projection import call_rows, decision_row, invocation_rows
from graph_agent.record.statements import read
from graph_agent.record.tables import DecisionLog, LLMCallLog, RecordBlob, ToolInvocationLog, table_of
from graph_agent.db import Database
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import digest
from graph_agent.models.record import DecisionRecord, EntryKind, RecordStatus

BATCH = 200
MAX_FINDINGS = 1000
"""More are counted, not told."""

_SECONDS = 60.0
_CANDIDATES = 50

_chains = table_of(RecordChain)
_links = table_of(RecordLink)
_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)
_calls = table_of(LLMCallLog)
_blobs = table_of(RecordBlob)

_TEXTS = ("constitution", "tools", "settings", "prompt")

Progress = Callable[[int, int], None]
"""Told how many records are done, and of how many."""


class FindingKind(StrEnum):
    """What is wrong."""

    EDITED = "edited"
    """The record is not the one that was sealed."""
    MOVED = "moved"
    """The record was sealed at another place of the chain."""
    REMOVED = "removed"
    """A record, or the end of a chain, or a whole chain is gone, and nobody signed for it."""
    ADDED = "added"
    """A row that no seal covers."""
    PROJECTION = "projection"
    """A row says something else than its record."""
    TEXT = "text"
    """A shared text is missing, or is not what its digest says."""
    SIGNATURE = "signature"
    """A signature of ours does not hold, or was made with another key."""


class Finding(Frozen):
    """One thing that is wrong, in words, with the decision's id where there is one."""

    kind: FindingKind
    text: str
    decision_id: str | None = None
    chain: str | None = None
    n: int | None = None


class VerifyReport(Frozen):
    """What a verification has seen. `count` is the number of all findings, of which the first ones are told."""

    records: int
    chains: int
    pruned: int
    open: int
    """Turns that are not closed yet: nothing seals them."""
    keyed: bool
    count: int
    findings: list[Finding]

    @property
    def intact(self) -> bool:
        return self.count == 0


async def verify_log(
    database: Database,
    *,
    key: bytes | None,
    heads: SignedHeads | None = None,
    on_progress: Progress | None = None,
) -> VerifyReport:
    """Verify the whole log under `key`, and that it still holds what `heads`, kept outside, say it held.

    Records closed meanwhile are left to the next time. Raises `ServiceError` STORAGE_ERROR.
    """
    run = _Verification(database, Seal(key), on_progress)
    ends = await read(database, current_heads, seconds=_SECONDS)
    run.total = await read(database, lambda connection: connection.scalar(select(func.count()).select_from(_links)) or 0)
    for end in ends:
        await run.walk_chain(end)
    if heads is not None:
        await run.compare_heads(heads)
    await run.look_for_unsealed()
    await run.check_texts()
    return run.report(len(ends), await read(database, _count_open), keyed=key is not None)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some links of one chain with everything that belongs to them, read at one time."""

    dialect: Dialect
    chain: Any
    links: Sequence[Any]
    decisions: Mapping[str, Any]
    invocations: Mapping[str, list[Any]]
    calls: Mapping[str, list[Any]]


@dataclass(slots=True)
class _Verification:
    database: Database
    seal: Seal
    on_progress: Progress | None
    total: int = 0
    records: int = 0
    pruned: int = 0
    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    """Digests of shared texts, each with a decision that names it."""

    def find(self, kind: FindingKind, text: str, **where: Any) -> None:
        self.count += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind=kind, text=text, **where))

    def report(self, chains: int, open_turns: int, *, keyed: bool) -> VerifyReport:
        return VerifyReport(
            records=self.records,
            chains=chains,
            pruned=self.pruned,
            open=open_turns,
            keyed=keyed,
            count=self.count,
            findings=self.findings,
        )

    async def walk_chain(self, end: Head) -> None:
        chain, reached, mac = end.chain, 0, ""
        first = True
        while first or reached < end.n:
            piece = await read(self.database, _piece(chain, reached, end.n), seconds=_SECONDS)
            if piece.chain is None:
                self.find(FindingKind.REMOVED, f"chain {chain} is gone", chain=chain)
                return
            if first and not self._check_chain(piece.chain, end):
                return
            first = False
            if piece.chain.cut_n > reached:
                self.pruned += piece.chain.cut_n - reached
                reached, mac = piece.chain.cut_n, piece.chain.cut_mac
            links = [link for link in piece.links if link.n > reached]
            if not links:
                return
            mac = self._check_links(piece, links, reached, mac)
            reached = links[-1].n
            if self.on_progress is not None:
                self.on_progress(self.records, max(self.total, self.records))

    def _check_chain(self, chain: Any, end: Head) -> bool:
        """The signatures of a chain's own row; False if nothing in it can be verified."""
        where = {"chain": chain.chain}
        if chain.key_id != self.seal.key_id:
            made = "without a key" if chain.key_id is None else "with another key"
            self.find(FindingKind.SIGNATURE, f"chain {chain.chain} was made {made}: it cannot be verified", **where)
            return False
        if chain.signature != self.seal.head(chain.chain, chain.signed_n, chain.signed_mac):
            self.find(FindingKind.SIGNATURE, f"the signed head of chain {chain.chain} does not hold", **where)
        elif end.n < chain.signed_n:
            text = f"the end of chain {chain.chain} is missing: it is signed up to {chain.signed_n} and stops at {end.n}"
            self.find(FindingKind.REMOVED, text, **where)
        if chain.cut_n and chain.cut_signature != self.seal.cut(chain.chain, chain.cut_n, chain.cut_mac):
            self.find(FindingKind.SIGNATURE, f"the beginning of chain {chain.chain} was pruned without a signature", **where)
        return True

    def _check_links(self, piece: _Piece, links: Sequence[Any], reached: int, mac: str) -> str:
        """Walk on over `links`; returns the seal of the last one."""
        broken: list[tuple[Any, str]] = []
        before = {reached: mac}
        for link in links:
            place = {"decision_id": link.decision_id, "chain": link.chain, "n": link.n}
            if link.n != reached + 1:
                gone = f"record {reached + 1}" if link.n == reached + 2 else f"records {reached + 1} to {link.n - 1}"
                text = f"{gone} of chain {link.chain}, before decision {link.decision_id}, is gone with its link"
                self.find(FindingKind.REMOVED, text, chain=link.chain, n=reached + 1)
            row = piece.decisions.get(link.decision_id)
            self.records += 1
            if link.cut is not None and link.cut != self.seal.pruned(link.chain, link.n, link.mac, link.decision_id):
                text = f"decision {link.decision_id} was pruned without a signature"
                self.find(FindingKind.SIGNATURE, text, **place)
            elif link.cut is not None:
                self.pruned += 1
                self.records -= 1
            elif row is None or row.record is None:
                self.find(FindingKind.REMOVED, f"the record of decision {link.decision_id} is gone", **place)
            else:
                if link.n == reached + 1 and self.seal.link(link.chain, link.n, mac, row.record) != link.mac:
                    broken.append((link, row.record))
                self._check_projections(piece, row)
            reached, mac = link.n, link.mac
            before[reached] = mac
        for link, record in broken:
            self._name_broken(link, record, before)
        return mac

    def _name_broken(self, link: Any, record: str, before: Mapping[int, str]) -> None:
        """Tell a record that was edited from one that was sealed, as it is, at another place."""
        where = {"decision_id": link.decision_id, "chain": link.chain, "n": link.n}
        near = sorted(before.items(), key=lambda item: abs(item[0] - link.n))[:_CANDIDATES]
        for n in (place + 1 for place, _ in near):
            if any(self.seal.link(link.chain, n, mac, record) == link.mac for _, mac in near):
                text = f"the record of decision {link.decision_id} stands at place {link.n} and was sealed at place {n}"
                self.find(FindingKind.MOVED, text, **where)
                return
        self.find(FindingKind.EDITED, f"the record of decision {link.decision_id} is not the one that was sealed", **where)

    def _check_projections(self, piece: _Piece, row: Any) -> None:
        decision_id = row.decision_id
        try:
            record = DecisionRecord.model_validate_json(row.record)
            expected = {_decisions: [decision_row(record)], _invocations: invocation_rows(record), _calls: call_rows(record)}
        except ValidationError:
            self.find(FindingKind.EDITED, f"the record of decision {decision_id} cannot be read", decision_id=decision_id)
            return
        for name in _TEXTS:
            self.named.setdefault(getattr(record.header, name), decision_id)
        stored = {
            _decisions: [row],
            _invocations: piece.invocations.get(decision_id, []),
            _calls: piece.calls.get(decision_id, []),
        }
        if record.entries and record.entries[0].kind is EntryKind.INTERRUPT:
            # Closed without a walk over what it had recorded: the rows it wrote before are all that tells of that.
            for table in (_invocations, _calls):
                known = {row["sequence"] for row in expected[table]}
                stored[table] = [row for row in stored[table] if row.sequence in known]
        for table, rows in expected.items():
            for text in _differing(piece.dialect, table, rows, stored[table]):
                self.find(FindingKind.PROJECTION, f"decision {decision_id}: {text}", decision_id=decision_id)

    async def compare_heads(self, heads: SignedHeads) -> None:
        """Hold the chains against heads that were kept elsewhere."""
        if not heads.is_signed_by(self.seal):
            self.find(FindingKind.SIGNATURE, "the heads that were given are not signed with this key")
            return
        for head in heads.heads:
            chain, mac = await read(self.database, _place(head))
            where = {"chain": head.chain, "n": head.n}
            if chain is None:
                text = f"chain {head.chain} is gone: it had {head.n} records on {heads.at:%Y-%m-%d %H:%M}"
                self.find(FindingKind.REMOVED, text, **where)
            elif chain.cut_n > head.n or (chain.cut_n == head.n and chain.cut_mac == head.mac):
                continue
            elif mac is None:
                text = f"the end of chain {head.chain} is missing: it had {head.n} records on {heads.at:%Y-%m-%d %H:%M}"
                self.find(FindingKind.REMOVED, text, **where)
            elif mac != head.mac:
                text = f"chain {head.chain} was written anew: it is another one at place {head.n}"
                self.find(FindingKind.EDITED, text, **where)

    async def look_for_unsealed(self) -> None:
        """Closed decisions that stand in no chain, and chains' links without a chain."""
        linked = select(_links.c.decision_id).where(_links.c.decision_id == _decisions.c.decision_id).exists()
        after = ""
        while True:
            wanted = (
                select(_decisions.c.decision_id)
                .where(_decisions.c.status != RecordStatus.PENDING, ~linked, _decisions.c.decision_id > after)
                .order_by(_decisions.c.decision_id)
                .limit(MAX_FINDINGS)
            )
            unsealed = await read(self.database, _scalars(wanted), seconds=_SECONDS)
            for name in unsealed:
                self.find(FindingKind.ADDED, f"decision {name} stands in no chain", decision_id=name)
            if len(unsealed) < MAX_FINDINGS:
                break
            after = unsealed[-1]
        listed = select(_chains.c.chain).where(_chains.c.chain == _links.c.chain).exists()
        for chain in await read(self.database, _scalars(select(_links.c.chain).where(~listed).distinct())):
            self.find(FindingKind.REMOVED, f"chain {chain} has links, and its own row is gone", chain=chain)

    async def check_texts(self) -> None:
        """The shared texts under their digests."""
        missing = dict(self.named)
        after = ""
        while True:
            wanted = (
                select(_blobs.c.digest, _blobs.c.text).where(_blobs.c.digest > after).order_by(_blobs.c.digest).limit(BATCH)
            )
            rows = await read(self.database, _rows(wanted), seconds=_SECONDS)
            for row in rows:
                user = missing.pop(row.digest, None)
                if digest(row.text) != row.digest:
                    text = f"the shared text {row.digest} is not what its digest says"
                    self.find(FindingKind.TEXT, text, decision_id=user)
            if len(rows) < BATCH:
                break
            after = rows[-1].digest
        for name, decision_id in missing.items():
            text = f"the shared text {name} is gone, and decision {decision_id} names it"
            self.find(FindingKind.TEXT, text, decision_id=decision_id)


def _piece(chain: str, after: int, last: int) -> Callable[[Connection], _Piece]:
    def work(connection: Connection) -> _Piece:
        of_chain = connection.execute(select(_chains).where(_chains.c.chain == chain)).one_or_none()
        wanted = select(_links).where(_links.c.chain == chain, _links.c.n > after, _links.c.n <= last)
        links = connection.execute(wanted.order_by(_links.c.n).limit(BATCH)).all()
        names = [link.decision_id for link in links]
        decisions = connection.execute(_as_stored(_decisions).where(_decisions.c.decision_id.in_(names)))
        return _Piece(
            connection.dialect,
            of_chain,
            links,
            {row.decision_id: row for row in decisions},
            _by_decision(connection, _invocations, names),
            _by_decision(connection, _calls, names),
        )

    return work


def _by_decision(connection: Connection, table: Table, names: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    wanted = _as_stored(table).where(table.c.decision_id.in_(names))
    for row in connection.execute(wanted.order_by(table.c.decision_id, table.c.sequence)):
        found.setdefault(row.decision_id, []).append(row)
    return found


def _as_stored(table: Table) -> Any:
    """Every column as the driver gives it: what cannot be read as its type is to be found, not to be raised."""
    return select(*(type_coerce(column, NullType()).label(column.name) for column in table.columns))


def _place(head: Head) -> Callable[[Connection], tuple[Any, str | None]]:
    """The chain of a head, and the seal that stands at its place."""

    def work(connection: Connection) -> tuple[Any, str | None]:
        chain = connection.execute(select(_chains).where(_chains.c.chain == head.chain)).one_or_none()
        wanted = select(_links.c.mac).where(_links.c.chain == head.chain, _links.c.n == head.n)
        return chain, connection.execute(wanted).scalar_one_or_none()

    return work


def _scalars(wanted: Any) -> Callable[[Connection], list[str]]:
    return lambda connection: list(connection.execute(wanted).scalars())


def _rows(wanted: Any) -> Callable[[Connection], list[Any]]:
    return lambda connection: list(connection.execute(wanted))


def _count_open(connection: Connection) -> int:
    pending = select(func.count()).select_from(_decisions).where(_decisions.c.status == RecordStatus.PENDING)
    return connection.scalar(pending) or 0


def _differing(dialect: Dialect, table: Table, expected: Sequence[Mapping[str, Any]], stored: Sequence[Any]) -> Iterator[str]:
    """What the rows of one decision in `table` say otherwise than the record, each in words that name the column."""
    as_stored = _processors(dialect, table)
    wanted = {row.get("sequence"): row for row in expected}
    standing = {row._mapping.get("sequence"): row._mapping for row in stored}
    for place in [*wanted, *(place for place in standing if place not in wanted)]:
        where = table.name if place is None else f"{table.name} {place}"
        if place not in standing:
            yield f"{where} is gone"
        elif place not in wanted:
            yield f"{where} is not in the record"
        else:
            for name, value in wanted[place].items():
                if as_stored[name](value) != standing[place][name]:
                    yield f"{where}: the column {name} disagrees with the record"


@lru_cache(maxsize=16)
def _processors(dialect: Dialect, table: Table) -> dict[str, Callable[[Any], Any]]:
    """How each column's values are turned into what the driver stores."""
    made = {column.name: column.type.dialect_impl(dialect).bind_processor(dialect) for column in table.columns}
    return {name: processor or _as_it_is for name, processor in made.items()}


def _as_it_is(value: Any) -> Any:
    return value
