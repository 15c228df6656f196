"""Calls of functions that others wrote end nothing but themselves."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.ledger.contained import run_until_done


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_task_beside_the_server_does_not_end_it(error: type[BaseException]) -> None:
    logged = []

    async def fail() -> None:
        raise error

    async def serve() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["exception"]))
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        return "served"

    assert run_until_done(serve()) == "served"
    assert [type(one) for one in logged][:1] == [error]
