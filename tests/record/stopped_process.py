"""A process that makes changes and reads until it is killed, and writes down when each call was sent.

Run as `stopped_process URL FILE TURNS MISTAKE`, with the number of turns that run at the same time, and the name of a planted
mistake or nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from graph_agent.clock import RandomIds
from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.signature import Signer
from graph_agent.record import permit
from graph_agent.record import writer as writer_module
from graph_agent.record.permit import Permit
from graph_agent.record.stops import find_open_stops
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.tools.functions import FunctionTools
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts
from tests.record.trees import KEY

RULES = "You pay.\n\n## Available Tools\n- pay: Pay (without confirmation)\n- look: Look (reads)\n"

OWN = RuleSet({"constitution": RULES})
"""The rules of these processes."""


def plant(mistake: str) -> None:
    """Let this process make a mistake that tests of stops must find."""
    match mistake:
        case "read without the lock":
            vars(permit)["find_open_stops"] = lambda connection, **_: find_open_stops(connection)
        case "no check in the commit":
            Permit.require_none = lambda *_, **__: None  # type: ignore[method-assign]
        case "no permit":
            Permit.require = lambda *_: None  # type: ignore[method-assign]
        case "no look at the floor":
            vars(writer_module)["require_above_floor"] = lambda *_: None


async def main(url: str, file: str, turns: str, mistake: str) -> None:
    plant(mistake)
    sent = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(kind: str) -> None:
        os.write(sent, f"{time.monotonic():.6f} {kind}\n".encode())

    async def pay(amount: int, user_id: str) -> str:
        """Pay."""
        del amount, user_id
        write("pay")
        await asyncio.sleep(0.01)
        return "paid"

    async def look(item: int, user_id: str) -> str:
        """Look."""
        del item, user_id
        write("look")
        await asyncio.sleep(0.05)
        return "seen"

    writer = DatabaseAuditWriter(Database.open(url), record_key=KEY)
    ports = EnginePorts(audit=writer, ids=RandomIds(), signer=Signer(b"a key for tests only"))
    options = EngineOptions(rule_set=OWN)
    engine = LLMAgentEngine(ScriptedAdapter([]), FunctionTools(pay, look), RULES, ports=ports, options=options)

    async def run(user: str) -> None:
        for number in range(sys.maxsize):
            changes = [FunctionCall(name="pay", arguments={"amount": 10 * number + n}) for n in range(3)]
            reads = [FunctionCall(name="look", arguments={"item": 10 * number + n}) for n in range(8)]
            refused = False
            try:
                await engine.call(user, [*changes, *reads], typed=True)
            except ServiceError:
                refused = True
            # While nothing may be done, the others get the processor.
            await asyncio.sleep(0.05 if refused or writer.permit.stops else 0)

    await asyncio.gather(*(run(f"user {n}") for n in range(int(turns))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
