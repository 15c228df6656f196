"""Lost answers and killed processes at servers without a ledger: nothing is doubled, and only what is known is said."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock, SystemClock
from graph_agent.turn.sent_calls import SentCalls
from tests.chat.environment import Environment, open_environment
from tests.chat.lost_answers import KINDS, NOT_KNOWN, pay_often
from tests.chat.paying_process import engine_settings
from tests.chat.payment_servers import KEYED, Kind, PaymentServer, serving
from tests.chat.payment_shop import states_by_amount
from tests.lost_answer import Fault
from tests.settling import settle_all

ROUNDS = [pytest.param(1, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("kind", KINDS)
async def test_payments_at_once_whose_answers_are_lost_are_made_once(tmp_path: Path, kind: Kind) -> None:
    outcomes = await pay_often(tmp_path, kind, 8, at_once=8, settle_for=0, seed="ci")
    assert (outcomes.doubled, outcomes.wrong, outcomes.unreported) == (0, 0, 0), outcomes
    assert outcomes.lost > 0
    if kind == "plain":
        # On a busy machine an answer that was not lost may come too late.
        assert outcomes.unknown == outcomes.unknown_at_first >= outcomes.lost


async def kill_while_paying(environment: Environment, server: PaymentServer, kind: Kind, amount: int, fault: Fault) -> None:
    """Run a process of the runtime that pays, and kill it between the request and its answer."""
    home, before = environment.settings.home, server.requests
    server.faults.append(fault)
    arguments = [str(home), server.address.url, kind, str(amount)]
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.chat.paying_process", *arguments)
    try:
        await server.requested.wait()
    finally:
        server.requested.clear()
        process.kill()
    assert await process.wait() == -9
    assert server.requests == before + 1


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.DELAYED])
@pytest.mark.parametrize("kind", ["keyed", "listed", "plain"])
async def test_a_payment_of_a_killed_process_is_made_once_and_reported_as_it_is_known(
    tmp_path: Path, template: Path, kind: Kind, fault: Fault, rounds: int
) -> None:
    async with serving([kind]) as [server], open_environment(tmp_path, template) as environment:
        for amount in range(1, rounds + 1):
            await kill_while_paying(environment, server, kind, amount, fault)
            clock = ManualClock(SystemClock().now() + timedelta(seconds=130))
            environment.use_clock(clock)
            settings = engine_settings(server.address.url, kind, amount)
            engine = environment.engine(**settings)
            chat = environment.chat(**settings)
            try:
                assert await chat.serve_due() == 1
                await server.arrive()
                clock.advance(seconds=60)
                sent_calls = SentCalls(engine)
                settler = OutcomeSettler(settings["tools"], environment.database, clock=clock, sent_calls=sent_calls)
                await settle_all(settler)
                said = " ".join(await environment.said()).casefold()
            finally:
                await settings["tools"].aclose()
            [state] = [state for paid, state in (await states_by_amount(environment.database)).items() if paid == amount]
            assert (server.of(amount), state) == (1, "unknown" if kind == "plain" else "done"), said
            assert kind in KEYED or said.count(NOT_KNOWN.casefold()) + said.count("found done") >= amount
