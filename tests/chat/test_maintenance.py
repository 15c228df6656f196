"""The maintenance of several processes that share a database."""

from __future__ import annotations

from graph_agent.chat.maintenance import MaintenanceJob
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from tests.chat.environment import Environment


class Jobs:
    """Counts what each of several simulated processes has done."""

    def __init__(self, environment: Environment, processes: int) -> None:
        self.done = [0] * processes
        self.services = [
            ChatService(environment.engine(), clock=environment.clock, maintenance=[_failing, _counted(self.done, number)])
            for number in range(processes)
        ]


def _counted(counts: list[int], number: int) -> MaintenanceJob:
    async def job() -> int:
        counts[number] += 1
        return 0

    return job


async def _failing() -> int:
    raise OSError("this job always fails")


async def test_one_process_does_the_maintenance_of_a_minute(environment: Environment, clock: ManualClock) -> None:
    jobs = Jobs(environment, 3)
    for number in (1, 0, 2):
        await jobs.services[number].serve_due()
    assert jobs.done == [0, 1, 0]

    # The process that did it has died: another one does it in the next minute.
    clock.advance(seconds=61)
    for number in (2, 0):
        await jobs.services[number].serve_due()
    assert jobs.done == [0, 1, 1]


async def test_a_clock_that_was_set_back_does_not_stop_the_maintenance(environment: Environment, clock: ManualClock) -> None:
    jobs = Jobs(environment, 1)
    await jobs.services[0].serve_due()
    clock.advance(days=-1)
    await jobs.services[0].serve_due()
    assert jobs.done == [2]
