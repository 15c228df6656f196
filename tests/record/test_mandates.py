"""Draws from a mandate: every order of a few events leaves what was drawn within its lines, and none after its end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, insert, update

from graph_agent.db import Database
from graph_agent.models.mandate import AtMost, Covered, Line, Mandate, MandateState, Plan, WantedDraw
from graph_agent.models.record import CallOperation, OperationState
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record import operations
from graph_agent.record.mandates import (
    draw,
    find_mandate,
    find_open,
    forget_mandates,
    list_mandates,
    mint,
    prune_mandates,
    revoke,
    revoke_own,
    void,
)
from graph_agent.record.stops import end_stop, place_stop
from graph_agent.record.tables import call_operations, mandate_draws, mandates
from graph_agent.record.tree.leaves import Sealer

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
SEALER = Sealer(b"a key for tests only")
TWICE = Line(tool="refund", arguments={"amount": AtMost(50)}, times=2, sum={"amount": Decimal(70)})


def mandate(name: str = "m1", *lines: Line) -> Mandate:
    return Mandate(
        id=name,
        plan=Plan(lines=lines or (TWICE,)),
        user_id="ann",
        conversation_id="c1",
        decision_id="d1",
        asked_under=RulesDigests(constitution="0" * 64),
        created_at=NOW,
        until=NOW + timedelta(hours=1),
    )


def drawn(
    connection: Connection, name: str, number: int, amount: int, at: datetime = NOW, *lines: int, **operation: Any
) -> bool:
    """Draw a call and commit its operation, as a reservation does."""
    call = CallOperation(number, f"{name}:{number}", operation.get("user_id", "ann"), "refund")
    wanted = WantedDraw(Covered(name, lines or (1,)), {"amount": amount}, operation.get("run", "c1"))
    found = draw(connection, wanted, call, f"of {name}", at, SEALER)
    if found is not None:
        operations.intend(connection, f"of {name}", 1, call, at, SEALER)
    return found is not None


EVENTS = ("draw 30", "draw 50", "fail", "lose", "revoke", "expire")


def test_every_order_of_draws_outcomes_and_ends_stays_within_the_line(log: Database) -> None:
    def play(connection: Connection) -> None:
        for name, events in ((str(n), one) for n, one in enumerate(product(EVENTS, repeat=4))):
            mint(connection, mandate(name), log.time(), SEALER)
            kept: dict[int, int] = {}
            at, ended = NOW, False
            for number, event in enumerate(events, 1):
                last = max(kept, default=0)
                if event.startswith("draw"):
                    amount = int(event.split()[1])
                    fits = not ended and len(kept) < 2 and sum(kept.values()) + amount <= 70
                    assert drawn(connection, name, number, amount, at) is fits, events
                    kept |= {number: amount} if fits else {}
                elif event == "revoke":
                    revoke(connection, log.time(), SEALER, by="ann", mandate_id=name)
                    ended = True
                elif event == "expire":
                    at, ended = NOW + timedelta(hours=1), True
                elif last:
                    state = OperationState.VOID if event == "fail" else OperationState.UNKNOWN
                    of_call = (call_operations.c.decision_id == f"of {name}") & (call_operations.c.sequence == last)
                    connection.execute(update(call_operations).where(of_call).values(state=state))
                    if event == "fail":
                        del kept[last]
            view = find_mandate(connection, name, at)
            assert view is not None
            assert view.drawn == (len(kept),), events

    log.write_now(play)


def of_job(name: str, *, runs: int, line: Line = TWICE) -> Mandate:
    plan = Plan(lines=(line,), job="nightly", minutes=90 * 24 * 60, runs=runs)
    return mandate(name).replace(plan=plan, until=NOW + timedelta(days=90))


RUN_EVENTS = ("a 30", "b 50", "c 30", "fail")


def test_every_order_of_draws_and_outcomes_stays_within_the_runs_and_the_line_in_each(log: Database) -> None:
    def play(connection: Connection) -> None:
        for name, events in ((str(n), one) for n, one in enumerate(product(RUN_EVENTS, repeat=4))):
            mint(connection, of_job(name, runs=2), log.time(), SEALER)
            kept: dict[int, tuple[str, int]] = {}
            for number, event in enumerate(events, 1):
                if event == "fail" and kept:
                    last = max(kept)
                    of_call = (call_operations.c.decision_id == f"of {name}") & (call_operations.c.sequence == last)
                    connection.execute(update(call_operations).where(of_call).values(state=OperationState.VOID))
                    del kept[last]
                elif event != "fail":
                    run, amount = event[0], int(event[2:])
                    amounts = [one for of, one in kept.values() if of == run]
                    runs = {run, *(of for of, _ in kept.values())}
                    fits = len(runs) <= 2 and len(amounts) < 2 and sum(amounts) + amount <= 70
                    assert drawn(connection, name, number, amount, run=run) is fits, events
                    kept |= {number: (run, amount)} if fits else {}
            view = find_mandate(connection, name, NOW)
            assert view is not None
            assert (view.drawn, view.runs) == ((len(kept),), len({run for run, _ in kept.values()})), events
            assert (view.state is MandateState.USED) is (len(kept) == 4), events

    log.write_now(play)


def test_a_standing_plan_is_used_up_when_all_lines_are_in_all_runs(log: Database) -> None:
    def play(connection: Connection) -> None:
        mint(connection, of_job("m1", runs=2, line=TWICE.replace(sum={})), log.time(), SEALER)

        def stands(run: str) -> tuple[int, MandateState, bool]:
            view = find_mandate(connection, "m1", NOW)
            assert view is not None
            open_to = find_open(connection, "ann", run, NOW, SEALER, "nightly")
            return view.runs, view.state, [one.id for one in open_to] == ["m1"]

        assert drawn(connection, "m1", 1, 1, run="a")
        assert stands("b") == (1, MandateState.OPEN, True)
        assert drawn(connection, "m1", 2, 1, run="b")
        # No other run draws. The two that have begun may go on.
        assert not drawn(connection, "m1", 3, 1, run="c")
        assert (stands("c"), stands("a")) == ((2, MandateState.OPEN, False), (2, MandateState.OPEN, True))
        assert drawn(connection, "m1", 4, 1, run="a")
        assert not drawn(connection, "m1", 5, 1, run="a")
        assert stands("a") == (2, MandateState.OPEN, False)
        assert drawn(connection, "m1", 6, 1, run="b")
        assert stands("b") == (2, MandateState.USED, False)

    log.write_now(play)


def test_a_plan_that_is_used_up_hides_none_of_later(log: Database) -> None:
    def play(connection: Connection) -> None:
        for name in ("m1", "m2"):
            mint(connection, mandate(name), log.time(), SEALER)
        assert [one.id for one in find_open(connection, "ann", "c1", NOW, SEALER)] == ["m1", "m2"]
        assert [drawn(connection, "m1", number, 10) for number in (1, 2)] == [True, True]
        assert [one.id for one in find_open(connection, "ann", "c1", NOW, SEALER)] == ["m2"]

    log.write_now(play)


@pytest.mark.usefixtures("patient_locks")
async def test_of_several_runs_that_begin_at_once_only_as_many_draw_as_the_plan_has(log: Database) -> None:
    for n in range(10):
        name = f"m{n}"
        await log.write(lambda connection, name=name: mint(connection, of_job(name, runs=3), log.time(), SEALER))  # type: ignore[misc]
        assert await log.write(lambda connection, name=name: drawn(connection, name, 1, 10, run="first"))  # type: ignore[misc]

        async def start(number: int, name: str = name) -> bool:
            return await log.write(lambda connection: drawn(connection, name, number, 10, run=f"run {number // 2}"))

        # Two calls of each of four runs: two of these runs begin, and each of their calls runs.
        results = await asyncio.gather(*(start(number) for number in range(2, 10)))
        by_run = [results[at : at + 2] for at in range(0, 8, 2)]
        assert sorted(by_run) == [[False, False], [False, False], [True, True], [True, True]]
        view = await log.read(lambda connection, name=name: find_mandate(connection, name, NOW))  # type: ignore[misc]
        assert view is not None
        assert (view.runs, view.drawn) == (3, (5,))


@pytest.mark.parametrize(
    ("scope", "name", "changes_only", "revokes"),
    [
        (StopScope.EVERYTHING, "", True, True),
        (StopScope.USER, "ann", False, True),
        (StopScope.USER, "bob", False, False),
        (StopScope.TOOL, "refund", False, True),
        (StopScope.TOOL, "ship", False, False),
        (StopScope.SERVER, "shop", False, True),
    ],
)
async def test_a_mandate_that_a_stop_covers_is_shown_as_revoked_and_draws_nothing(
    log: Database, scope: StopScope, name: str, changes_only: bool, revokes: bool
) -> None:
    placed = await place_stop(log, Stop(number=0, scope=scope, name=name, changes_only=changes_only))
    at = placed.at
    assert at is not None
    await end_stop(log, placed.number, SEALER, by="op", reason="over")

    def look(connection: Connection) -> None:
        agreed = {"created_at": at - timedelta(minutes=1), "until": at + timedelta(minutes=59)}
        mint(connection, mandate().replace(**agreed), log.time(), SEALER)
        view = find_mandate(connection, "m1", at)
        assert view is not None
        assert [view] == list_mandates(connection, at)
        assert (view.state, view.ended_at, view.ended_by) == (
            (MandateState.REVOKED, at, f"stop {placed.number}") if revokes else (MandateState.OPEN, None, "")
        )
        assert drawn(connection, "m1", 1, 10, at) is not revokes

    await log.write(look)


def test_a_draw_takes_the_first_line_with_room_and_only_calls_of_its_user(log: Database) -> None:
    def play(connection: Connection) -> None:
        mint(connection, mandate("m1", TWICE.replace(times=1), TWICE), log.time(), SEALER)
        assert not drawn(connection, "m1", 1, 10, NOW, 1, user_id="bob")
        assert not drawn(connection, "m1", 1, 10, NOW - timedelta(seconds=1), 1)
        results = [drawn(connection, "m1", number, 10, NOW, 1, 2) for number in range(1, 5)]
        assert results == [True, True, True, False]
        view = find_mandate(connection, "m1", NOW)
        assert view is not None
        assert (view.drawn, view.state) == ((1, 2), MandateState.USED)

    log.write_now(play)


def test_a_mandate_that_another_has_written_or_widened_covers_nothing(log: Database) -> None:
    def play(connection: Connection) -> None:
        mint(connection, mandate(), log.time(), SEALER)
        assert find_open(connection, "ann", "c1", NOW, SEALER) == [mandate()]
        assert find_open(connection, "ann", "c1", NOW, Sealer(b"another key")) == []
        wide = Plan(lines=(TWICE.replace(times=20),)).to_json()
        for changes in ({"plan": wide}, {"user_id": "bob"}, {"until": NOW + timedelta(days=9)}, {"conversation_id": "c2"}):
            with connection.begin_nested() as tried:
                connection.execute(update(mandates).values(**changes))
                assert find_open(connection, "ann", "c1", NOW, SEALER) == []
                assert not drawn(connection, "m1", 1, 10)
                tried.rollback()
        row = connection.execute(mandates.select()).one()._mapping
        connection.execute(insert(mandates).values(**{**row, "id": "m2"}))
        assert find_open(connection, "ann", "c1", NOW, SEALER) == [mandate()]

    log.write_now(play)


def test_a_mandate_is_minted_once_ended_once_and_erased_with_its_user(log: Database) -> None:
    def play(connection: Connection) -> None:
        for _ in range(2):
            mint(connection, mandate(), log.time(), SEALER)
        assert revoke_own(connection, "m1", "bob", NOW, log.time(), SEALER) is None
        revoked = revoke_own(connection, "m1", "ann", NOW, log.time(), SEALER)
        assert revoked == revoke_own(connection, "m1", "ann", NOW, log.time(), SEALER)
        assert revoke(connection, log.time(), SEALER, by="op") == 0
        void(connection, NOW)
        mint(connection, mandate(), log.time(), SEALER)
        (view,) = list_mandates(connection, NOW)
        assert (view.state, view.ended_by) == (MandateState.REVOKED, "ann")
        forget_mandates(connection, "ann")
        assert list_mandates(connection, NOW) == []

    log.write_now(play)


@pytest.mark.parametrize(("hours", "left"), [(0.5, 1), (2, 0)])
def test_old_mandates_are_pruned_with_their_draws(log: Database, hours: float, left: int) -> None:
    def play(connection: Connection) -> None:
        mint(connection, mandate(), log.time(), SEALER)
        assert drawn(connection, "m1", 1, 10)
        prune_mandates(connection, NOW + timedelta(hours=hours))
        assert len(list_mandates(connection, NOW)) == left
        assert len(connection.execute(mandate_draws.select()).all()) == left

    log.write_now(play)


def test_a_standing_plan_is_found_by_its_user_and_job_alone(log: Database) -> None:
    def check(connection: Connection) -> None:
        standing = of_job("m2", runs=1)
        for one in (mandate("m1"), standing, standing.replace(id="m3", user_id="bob")):
            mint(connection, one, log.time(), SEALER)

        def found(user: str, conversation: str, job: str = "") -> list[str]:
            return [one.id for one in find_open(connection, user, conversation, NOW, SEALER, job)]

        assert found("ann", "c1") == ["m1"]
        assert found("ann", "c2") == []
        assert found("ann", "c1", "nightly") == ["m1", "m2"]
        assert found("ann", "c2", "nightly") == ["m2"]
        assert found("bob", "c1", "nightly") == ["m3"]
        assert found("ann", "c2", "Nightly") == found("ann", "c2", "daily") == []
        # By hand: neither to another job, nor from a conversation to a job.
        for name, job in (("m2", "daily"), ("m1", "daily"), ("m2", None)):
            connection.execute(update(mandates).where(mandates.c.id == name).values(job=job))
            assert found("ann", "c1", "daily") == (["m1"] if (name, job) == ("m2", "daily") else [])
        assert drawn(connection, "m2", 1, 5) is False

    log.write_now(check)
