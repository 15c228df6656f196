"""The check of chains in parts: the same report as in one piece, also for changes at the borders of the parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from graph_agent.audit.parallel import Checkpoint, run_in_order
from graph_agent.db import Database, migrate
from graph_agent.record.chain import Sealer
from graph_agent.record.chain_tables import record_links
from graph_agent.record.tables import decision_logs, record_blobs
from graph_agent.record.tamper import chain_check
from graph_agent.record.tamper.chain_parts import ChainJob, ChainPart, CheckedPart, check_part, check_stored_part, split_chains
from graph_agent.record.tamper.pruned import mark_pruned
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind
from tests.dask_cluster import client_of, dask_cluster
from tests.record.test_chain import KEY, LogFiller, deletions, run

SIZE = 4
RECORDS = 15


@pytest.fixture
async def names(log: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The decisions of a log with several chains, of which one has most of the links."""
    monkeypatch.setattr(chain_check, "_LINKS_PER_READ", SIZE // 2)
    return await LogFiller.on(log).fill(RECORDS)


async def remove_link(log: Database, names: list[str], position: int) -> None:
    await run(
        log, *deletions(names[position - 1]), delete(record_links).where(record_links.c.decision_id == names[position - 1])
    )


async def edit(log: Database, names: list[str], position: int) -> None:
    await run(
        log, update(decision_logs).where(decision_logs.c.decision_id == names[position - 1]).values(message="x", record="{}")
    )


async def change_seal(log: Database, names: list[str], position: int) -> None:
    await run(log, update(record_links).where(record_links.c.decision_id == names[position - 1]).values(mac="0" * 64))


async def prune(log: Database, names: list[str], position: int) -> None:
    await log.write(lambda connection: mark_pruned(connection, names[:position], key=KEY))
    await run(log, *(statement for name in names[:position] for statement in deletions(name)))


async def remove_texts(log: Database, _names: list[str], _position: int) -> None:
    await run(log, delete(record_blobs))


@pytest.mark.parametrize(
    "position", [SIZE, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, SIZE - 1, SIZE + 1, RECORDS - 1))]
)
@pytest.mark.parametrize("tamper", [remove_link, edit, change_seal, prune, remove_texts])
async def test_the_report_of_the_parts_is_the_report_of_the_whole(
    log: Database, names: list[str], tamper: Callable[..., Any], position: int
) -> None:
    await tamper(log, names, position)
    parts = await split_chains(log, SIZE)
    checked = [await check_part(log, Sealer(KEY), part) for part in parts]
    report = await verify_log(log, key=KEY, checked=checked)
    assert report == await verify_log(log, key=KEY)
    assert report.intact is (tamper is prune)


async def test_a_link_replaced_at_a_border_is_found_by_the_part_before_and_by_the_part_after(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_check, "_LINKS_PER_READ", SIZE)
    log = Database.open(sqlite_url)
    migrate(log, "graph_agent.record")
    names = await LogFiller.on(log).fill(3 * SIZE)
    before, after, _ = await split_chains(log, SIZE)
    await change_seal(log, names, SIZE)
    border, following = [await check_part(log, Sealer(KEY), part) for part in (await split_chains(log, SIZE))[:2]]
    assert (before.segments[0].last, after.segments[0].after) == (SIZE, SIZE)
    assert [one.decision_id for one in border.violations] == [names[SIZE - 1]]
    assert [(one.kind, one.decision_id) for one in following.violations] == [(ViolationKind.EDITED, names[SIZE])]
    await log.close()


async def test_the_parts_cover_every_link_once(log: Database, names: list[str]) -> None:
    parts = await split_chains(log, SIZE)
    assert sum(part.links for part in parts) == len(names)
    assert len({part.name for part in parts}) == len(parts)
    by_chain: dict[str, int] = {}
    for segment in (segment for part in parts for segment in part.segments):
        assert segment.after == by_chain.get(segment.chain, 0)
        by_chain[segment.chain] = segment.last


def check(executor: Executor, url: str, parts: list[ChainPart], directory: Path | None = None) -> list[CheckedPart]:
    stored = None if directory is None else Checkpoint(directory, "verify")
    results = run_in_order(executor, check_stored_part, ChainJob(url, KEY), parts, ahead=3, checkpoint=stored)
    return [CheckedPart.model_validate(result) for (result,) in results]


@pytest.fixture
def edited_log(sqlite_url: str) -> tuple[str, list[ChainPart], VerifyReport]:
    """The URL of a log with an edited record, its parts, and the report of one process."""

    async def fill() -> tuple[list[ChainPart], VerifyReport]:
        log = Database.open(sqlite_url)
        migrate(log, "graph_agent.record")
        await edit(log, await LogFiller.on(log).fill(RECORDS), 6)
        parts, report = await split_chains(log, SIZE), await verify_log(log, key=KEY)
        await log.close()
        return parts, report

    return sqlite_url, *asyncio.run(fill())


def report_of(url: str, checked: list[CheckedPart]) -> VerifyReport:
    log = Database.open(url)
    try:
        return asyncio.run(verify_log(log, key=KEY, checked=checked))
    finally:
        log.close_now()


@pytest.mark.usefixtures("quick_processes")
def test_two_processes_and_a_dask_cluster_find_what_one_process_finds(
    edited_log: tuple[str, list[ChainPart], VerifyReport],
) -> None:
    url, parts, expected = edited_log
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert report_of(url, check(executor, url, parts)) == expected
    with (
        dask_cluster(2) as cluster,
        client_of(cluster) as client,
    ):
        assert report_of(url, check(client.get_executor(), url, parts)) == expected
    assert not expected.intact


def test_a_verification_continues_from_its_checkpoint(
    edited_log: tuple[str, list[ChainPart], VerifyReport], tmp_path: Path
) -> None:
    url, parts, expected = edited_log
    with ThreadPoolExecutor(1) as executor:
        check(executor, url, parts[:2], tmp_path / "checkpoint")
        gone = check(executor, "sqlite:////nowhere/log.db", parts[:2], tmp_path / "checkpoint")
        assert report_of(url, gone + check(executor, url, parts[2:], tmp_path / "checkpoint")) == expected
