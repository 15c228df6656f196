"""The spool for terminal records: chained, bounded, private, drained in order and exactly once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.models.record import DecisionRecord, OpenTurn
from graph_agent.record.spool import Spool, SpoolError, SpoolingAuditWriter
from graph_agent.record.tamper.verify import verify_log
from tests.scripted_turns import asks, engine_of, says

KEY = b"k" * 32


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", KEY, max_bytes=2000)


def test_records_come_back_in_order_from_a_private_file(spool: Spool, tmp_path: Path) -> None:
    for text in ("one", "two"):
        spool.append(text)
    assert spool.records() == ["one", "two"]
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o600
    spool.clear(1)
    assert spool.records() == ["one", "two"]
    spool.clear(2)
    assert spool.records() == []


def test_a_line_whose_writing_was_interrupted_is_overwritten(spool: Spool, tmp_path: Path) -> None:
    spool.append("one")
    with (tmp_path / "spool").open("ab") as file:
        file.write(b'{"mac": "torn')
    spool.append("two")
    assert spool.records() == ["one", "two"]


def test_an_edited_line_is_refused(spool: Spool, tmp_path: Path) -> None:
    spool.append("one")
    (tmp_path / "spool").write_bytes((tmp_path / "spool").read_bytes().replace(b"one", b"two"))
    with pytest.raises(SpoolError, match="line 1"):
        spool.records()


def test_a_full_spool_refuses_and_is_not_usable(spool: Spool) -> None:
    spool.require_usable()
    spool.append("x" * 1500)
    with pytest.raises(SpoolError, match="full"):
        spool.append("x" * 1500)
    with pytest.raises(SpoolError, match="full"):
        spool.require_usable()


def test_a_spool_that_cannot_be_written_is_not_usable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError):
        Spool(tmp_path / "file" / "spool", KEY).require_usable()


async def test_a_terminal_record_is_spooled_and_drained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database.open(f"sqlite:///{tmp_path}/log.db")
    migrate(database, "graph_agent.record")
    writer = SpoolingAuditWriter(database, Spool(tmp_path / "spool", KEY), chain_key=KEY)

    def lose(*_: object) -> None:
        raise DatabaseUnavailableError("gone")

    def say_and_lose(*_: object) -> object:
        monkeypatch.setattr(database, "write", lose)
        return says("hi")

    finished = await engine_of(say_and_lose, audit=writer, clock=None).run(asks())
    monkeypatch.undo()
    decision_id = finished.record.header.decision_id
    assert isinstance(await super(SpoolingAuditWriter, writer).load(decision_id), OpenTurn)
    assert await writer.load(decision_id) == finished.record
    assert [await writer.drain() for _ in range(2)] == [1, 0]
    stored = await super(SpoolingAuditWriter, writer).load(decision_id)
    assert isinstance(stored, DecisionRecord)
    assert stored == finished.record
    assert (await verify_log(database, key=KEY)).violations == []
    await database.close()
