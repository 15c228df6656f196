"""The time limit of a replay."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph import build
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import DecisionRecord
from graph_agent.replays.pool import ReplayPool
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import LoadedRecord


def _record(loaded: LoadedRecord) -> DecisionRecord:
    assert loaded.record is not None
    return loaded.record


class SilentModel(ScriptedAdapter):
    async def generate(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()


async def test_a_model_that_never_answers_ends_the_replay(recorded: LoadedRecord) -> None:
    report = await Replayer(seconds=0.5).replay(_record(recorded), recorded.texts, live=SilentModel([]))
    assert (report.identical, report.departure) == (False, "the replay took longer than 0.5 s and was ended")


async def test_many_steps_end_at_the_limit_although_none_of_them_waits(recorded: LoadedRecord) -> None:
    report = await Replayer(seconds=0).replay(_record(recorded), recorded.texts)
    assert report.departure == "the replay took longer than 0 s and was ended"
    assert (await Replayer().replay(_record(recorded), recorded.texts)).identical


async def test_a_step_that_computes_for_ever_is_ended(recorded: LoadedRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(_turn: Turn, _runtime: TurnRuntime) -> Any:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue

    # `build_graph` takes no other function for a shipped state, and an added one has a limit besides this one.
    monkeypatch.setattr(build, "NODES", {**build.NODES, "BUILD_DECISION": endless})
    before = signal.getsignal(signal.SIGPROF)
    report = await Replayer(0.1, build.build_graph()).replay(_record(recorded), recorded.texts, interruptible=True)
    assert (report.identical, report.departure) == (False, "the replay took longer than 0.1 s and was ended")
    assert signal.getsignal(signal.SIGPROF) is before


async def test_the_time_in_which_a_busy_machine_does_other_things_does_not_count(
    recorded: LoadedRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = build.NODES["BUILD_DECISION"]

    async def starved(turn: Turn, runtime: TurnRuntime) -> Any:
        await asyncio.sleep(1.1)
        return await shipped(turn, runtime)

    # As above.
    monkeypatch.setattr(build, "NODES", {**build.NODES, "BUILD_DECISION": starved})
    replayer = Replayer(1, build.build_graph())
    assert (await replayer.replay(_record(recorded), recorded.texts, interruptible=True)).identical


async def test_a_worker_that_does_not_even_obey_its_limit_is_killed(recorded: LoadedRecord) -> None:
    async def one() -> AsyncIterator[LoadedRecord]:
        yield recorded

    pool = ReplayPool()
    try:
        assert [report["identical"] async for _, report in pool.replay_all(one())] == [True]
        for process in pool.workers:
            os.kill(process, signal.SIGSTOP)
        # Only now: to start the processes takes longer.
        pool.seconds = 0.5
        with pytest.raises(ServiceError) as failed:
            _ = [report async for report in pool.replay_all(one())]
        assert failed.value.code is ServiceErrorCode.QUERY_TIMEOUT
        assert failed.value.message == "A replay took longer than 0.5 s, and its process was ended."
        # The next replay has new processes.
        assert pool.workers == []
    finally:
        pool.close()
