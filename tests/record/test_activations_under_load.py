"""Activations while processes make changes, and are killed: nothing is intended under rules that were replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Connection, func, select

from graph_agent.db import Database
from graph_agent.models.rule_set import Activation, RuleSet
from graph_agent.record.rule_sets import activate_rules, list_activations
from graph_agent.record.tables import call_operations
from graph_agent.record.tree.leaves import Sealer
from tests.record.stopped_process import OWN, RULES
from tests.record.test_stop_under_load import Processes
from tests.record.trees import KEY

OTHER = RuleSet({"constitution": f"{RULES}\nPay nobody.\n"})


@pytest.fixture
def processes(log: Database, database_url: str, tmp_path: Path) -> Iterator[Processes]:
    del log
    found = Processes(database_url, tmp_path, 3)
    yield found
    found.close()


@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.nightly)])
async def test_nothing_is_intended_under_rules_that_an_activation_has_replaced(
    log: Database, processes: Processes, rounds: int
) -> None:
    chance = Random(2)
    for number in range(rounds):
        assert await _intended_late(log, processes, chance, number) == 0


@pytest.mark.nightly
@pytest.mark.postgresql
async def test_processes_that_do_not_look_at_the_floor_are_found(fresh_postgresql_url: str, tmp_path: Path) -> None:
    log = Database.open(fresh_postgresql_url)
    log.write_now(call_operations.metadata.create_all)
    processes, chance = Processes(fresh_postgresql_url, tmp_path, 3, "no look at the floor"), Random(2)
    try:
        found = [await _intended_late(log, processes, chance, number) for number in range(16)]
    finally:
        processes.close()
        await log.close()
    assert any(found)


async def _intended_late(log: Database, processes: Processes, chance: Random, number: int) -> int:
    """Activate other rules for a second; return how many calls were intended in it."""
    await processes.send_something()
    if number % 2:
        processes.kill_one(chance)
    # The processes make their changes and their reads in turn: an activation may fall into either.
    await asyncio.sleep(chance.uniform(0, 0.2))
    await _activate(log, OTHER)
    before = await log.read(_intended)
    await asyncio.sleep(1)
    after = await log.read(_intended)
    await _activate(log, OWN)
    return after - before


async def _activate(log: Database, rule_set: RuleSet) -> Activation:
    newest = await log.read(lambda connection: list_activations(connection, 1))
    return await activate_rules(log, rule_set, Sealer(KEY), expected=newest[0].number, by="ann", reason="a test")


def _intended(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(call_operations)).scalar_one())
