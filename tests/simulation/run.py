"""One simulation: replicas, clients and faults from a seed, then healing, then the checks."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from tests.simulation.approvers import Person
from tests.simulation.checks import check_outcome
from tests.simulation.clients import Client
from tests.simulation.database import DatabaseServer
from tests.simulation.event_loop import SimulatedLoop
from tests.simulation.faults import SECONDS, Faults
from tests.simulation.history import History
from tests.simulation.model import ModelWorld
from tests.simulation.plain import PlainCaller
from tests.simulation.policies import APPROVERS, DEMANDS
from tests.simulation.replicas import Replica, World
from tests.simulation.tools import ToolWorld
from tests.simulation.watch import Watch

_CLIENT_SECONDS = 40.0
"""The time in which the clients come to an end after everything has healed."""
_DUE_SECONDS = 75.0
"""What was left open is closed within this time by the workers of the replicas, even if its claim is committed late."""
_FAULT_SECONDS = 0.5
"""The time between two draws of the faults that happen at a moment."""


@dataclass(frozen=True)
class Simulation:
    """The result of a run."""

    seed: int
    faults: Faults
    lines: list[str]
    violations: list[str]
    digest: str
    """The digest of the history: the same for every run of the seed."""


def simulate(seed: int) -> Simulation:
    """Run the simulation of `seed`."""
    random = Random(seed)
    faults = Faults.draw(random)
    loop = SimulatedLoop(random)  # type: ignore[abstract]  # it has no network, signals or threads
    history = History(loop)
    with _quiet(history):
        try:
            loop.run_until_complete(_run(loop, random, faults, history))
        finally:
            loop.close()
    return Simulation(seed, faults, history.lines, history.violations, history.digest)


def violations_of(seed: int) -> tuple[int, list[str], str]:
    """Return a seed, its violations and the digest of its history, for a pool of processes."""
    simulation = simulate(seed)
    return seed, simulation.violations, simulation.digest


class _Errors(logging.Handler):
    """Everything that is logged as an error is a violation: the service recovers from all faults without one."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self._history.violated(f"an error is logged: {record.msg}" + ("" if cause is None else f" ({cause!r})"))


@contextmanager
def _quiet(history: History) -> Iterator[None]:
    """Run without the logs but for errors, and without garbage collection, whose moments are not those of the seed."""
    collects = gc.isenabled()
    gc.disable()
    errors, root = _Errors(history), logging.getLogger()
    logging.disable(logging.WARNING)
    root.addHandler(errors)
    try:
        yield
    finally:
        root.removeHandler(errors)
        logging.disable(logging.NOTSET)
        if collects:
            gc.enable()


async def _run(loop: SimulatedLoop, random: Random, faults: Faults, history: History) -> None:
    database = DatabaseServer(loop, random, faults, history)
    watch = Watch(loop, database, faults, history)
    database.observer = watch.on_commit
    tools = ToolWorld(loop, random, faults, history, watch.on_send)
    world = World(loop, random, faults, history, database, tools, ModelWorld(random, faults), watch)
    replicas = [Replica(world, number) for number in range(1, faults.replicas + 1)]
    for replica in replicas:
        replica.start()
    clients = [Client(world, replicas, number) for number in range(1, faults.clients + 1)]
    for client in clients:
        client.all = clients
    callers = [PlainCaller(world, replicas, number) for number in range(1, faults.clients + 1)]
    conversing = [asyncio.ensure_future(client.converse()) for client in clients]
    conversing += [asyncio.ensure_future(caller.decide()) for caller in callers]
    names = [*APPROVERS, *(client.user_id for client in clients)] if faults.approvals else []
    people = [Person(world, replicas, name) for name in names]
    conversing += [asyncio.ensure_future(person.attend()) for person in people]
    faulting = [asyncio.ensure_future(_trouble_replica(world, replica)) for replica in replicas]
    faulting.append(asyncio.ensure_future(_trouble_database(world)))
    await asyncio.wait(conversing, timeout=SECONDS)
    for task in faulting:
        task.cancel()
    _heal(world, replicas)
    await asyncio.wait(conversing, timeout=_CLIENT_SECONDS)
    await asyncio.sleep(_DUE_SECONDS)
    for task in conversing:
        task.cancel()
    await check_outcome(world, replicas, clients, callers, people)


async def _trouble_replica(world: World, replica: Replica) -> None:
    random, faults, loop = world.random, world.faults, world.loop
    while True:
        await asyncio.sleep(random.uniform(0.0, 2 * _FAULT_SECONDS))
        process = replica.process
        if not process.alive:
            await asyncio.sleep(random.uniform(0.0, random.choice((0.5, 10))))
            replica.start()
        elif random.random() < faults.pauses * _FAULT_SECONDS:
            seconds = random.uniform(0.1, random.choice((3, 12, 30)))
            world.history.add(process.name, f"is paused for {seconds:.3f} s")
            process.paused_until = loop.time() + seconds
            world.database.trouble(process, seconds)
        elif random.random() < faults.kills * _FAULT_SECONDS:
            if random.random() < 0.3:
                replica.kill()
            else:
                process.callbacks_to_live = random.randrange(1, random.choice((20, 200, 600)))
        elif faults.approvals and random.random() < faults.policy_changes * _FAULT_SECONDS:
            replica.policy = random.choice(tuple(DEMANDS))
            replica.kill()
        elif random.random() < faults.restarts * _FAULT_SECONDS:
            await replica.shut_down()
        elif random.random() < faults.cut_offs * _FAULT_SECONDS:
            seconds = random.uniform(0.1, random.choice((3, 12)))
            world.history.add(process.name, f"is cut off from the database for {seconds:.3f} s")
            world.database.cut_off(process, seconds)
        elif random.random() < faults.clock_jumps * _FAULT_SECONDS:
            replica.clock.ahead_seconds += random.choice((-3600, -10, -1, 1, 10, 3600))
            world.history.add(process.name, f"has a clock that is {replica.clock.ahead_seconds:+.3f} s ahead")
        elif random.random() < faults.stops * _FAULT_SECONDS and world.watch.running:
            decision_id, user_id = random.choice(world.watch.running)
            loop.spawn(process, replica.stop(decision_id, user_id))


async def _trouble_database(world: World) -> None:
    random, faults, database = world.random, world.faults, world.database
    while True:
        await asyncio.sleep(random.uniform(0.0, 2 * _FAULT_SECONDS))
        if random.random() < faults.outages * _FAULT_SECONDS:
            seconds = random.uniform(0.1, random.choice((2, 10)))
            world.history.add("database", f"refuses writes for {seconds:.3f} s")
            database.go_down(seconds)
        elif random.random() < faults.database_jumps * _FAULT_SECONDS:
            database.clock.ahead_seconds += random.choice((-3600, -10, -1, 1, 10, 3600))
            world.history.add("database", f"has a clock that is {database.clock.ahead_seconds:+.3f} s ahead")
            database.trouble_all(2.0)


def _heal(world: World, replicas: list[Replica]) -> None:
    """End all faults. The clocks stay as they are, because no service may depend on them."""
    world.history.add("world", "heals")
    world.database.healed = world.tools.healed = world.model.healed = True
    world.database.down_until = 0.0
    for replica in replicas:
        # Not to zero: the checks ask whether it was ever paused.
        replica.process.paused_until = min(replica.process.paused_until, world.loop.time())
        replica.process.callbacks_to_live = None
        if not replica.process.alive:
            replica.start()
