"""The simulated tool server, which all processes share, and the connection that each process has to it.

`add_task`, `drop_task` and `pay_out` keep a ledger. Of the other tools each call that arrives has its effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.ports import SentCall
from tests.simulation.event_loop import Process, SimulatedLoop
from tests.simulation.faults import Faults
from tests.simulation.history import History

CONSTITUTION = """# Constitution
You are an assistant.

## Available Tools
- add_task: Add a task
- drop_task: Remove a task (requires confirmation)
- send_note: Send a note (undone by recall_note(token = arguments.token) for 1 day)
- recall_note: Recall a note
- wire_money: Send money (requires confirmation)
- publish: Publish what was looked up
- refund: Refund an order
- pay_out: Pay out a balance
- erase: Erase an account (requires confirmation)
- look_up: Look something up (reads)

## Behavioral Rules
1. Do what the user says.

## Facts
- object: look_up(token = arguments.token)
"""
READS = frozenset({"look_up"})
WITH_LEDGER = frozenset({"add_task", "drop_task", "pay_out"})
CONFIRMED = frozenset({"drop_task", "wire_money"})
APPROVED = ("refund", "pay_out", "erase")
"""The calls that need the approval of other people, in simulations with approvals; only these ask for them."""
UNDONE, UNDOES = "send_note", "recall_note"
"""A change that can be undone, and the tool that undoes it, which the model never calls."""
UNAPPROVED = ("add_task", "drop_task", "send_note", "wire_money", "publish")
CHANGES = (*UNAPPROVED, *APPROVED)

READ_FIRST, PUBLISHES = "look_up", "publish"
"""In simulations with budgets the second tool may be called only after the first one has succeeded in the conversation."""

PAYS = "wire_money"
LIMITS = {"add_task": 2, "send_note": 2}
"""The calls of a tool that a user may make in a day, in simulations with budgets."""
MAX_AMOUNT = 100
"""The money that a user may send in a day, in simulations with budgets."""
FROZEN = "frozen"
_STATES = ("new", "checked", "signed", FROZEN)
"""The states of the object of each call, which follow one another; nobody may act on a frozen one."""


def _declaration(name: str, more: str = "") -> ToolDeclaration:
    properties = {"token": {"type": "string"}, **({"amount": {"type": "integer", "minimum": 0}} if name == PAYS else {})}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolDeclaration(name=name, description=f"{name.replace('_', ' ')}.{more}", parameters=parameters)


_NAMES = (*CHANGES, UNDOES, "look_up")
DECLARATIONS = tuple(map(_declaration, _NAMES))
_REDECLARED = tuple(_declaration(name, " As of today." if name in APPROVED else "") for name in _NAMES)
_LOST = ToolResult.failed(ToolErrorCode.TIMEOUT_ERROR, "the connection was lost")
_FAILED = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "the tool failed")
_VOIDED = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "it was never done")


@dataclass(frozen=True)
class Sent:
    """A call as it leaves a process."""

    process: Process
    tool_name: str
    token: str
    user_id: str
    operation_key: str
    attempt: int
    amount: int


@dataclass
class ToolWorld:
    """The server: what was sent to it, what it has done, and its ledger."""

    loop: SimulatedLoop
    random: Random
    faults: Faults
    history: History
    on_send: Callable[[Sent], None] = lambda _: None
    sent: list[Sent] = field(default_factory=list)
    effects: list[Sent] = field(default_factory=list)
    ledger: dict[str, ToolResult] = field(default_factory=dict)
    healed: bool = False

    def state(self, token: str) -> str:
        """Return the state of an object now: it changes every few seconds, with and without a question about it."""
        dice = Random(f"{token} of {self.faults}")
        changes = int((self.loop.time() + dice.uniform(0, 60)) / dice.choice((2, 10, 60)))
        return dice.choice(_STATES) if changes == 0 else Random(f"{token} {changes}").choice(_STATES)

    def run(self, call: Sent, *, fails: bool) -> ToolResult:
        """Run a call that has arrived."""
        if call.tool_name in WITH_LEDGER:
            if (stored := self.ledger.get(call.operation_key)) is None:
                stored = self.ledger[call.operation_key] = self._effect(call, fails=fails)
            return stored
        return self._effect(call, fails=fails)

    def settle(self, operation_key: str) -> ToolResult:
        """Return the stored result of an operation, or make sure that it never takes effect."""
        return self.ledger.setdefault(operation_key, _VOIDED)

    async def travel(self, arrive: Callable[[], ToolResult]) -> ToolResult:
        """Let a request arrive and return its result, unless the request or the reply is lost."""
        random, faults = self.random, self.faults
        slow = not self.healed and random.random() < faults.slow_tools
        seconds = random.uniform(0.0, random.choice((2, 8, 20))) if slow else random.uniform(0.001, 0.1)
        fate = 1.0 if self.healed else random.random()
        lost_request = fate < faults.lost_tool_requests
        lost_reply = fate < faults.lost_tool_requests + faults.lost_tool_replies
        answer: asyncio.Future[ToolResult] = self.loop.create_future()

        def arrived() -> None:
            result = _LOST if lost_request else arrive()
            if not answer.done():
                answer.set_result(_LOST if lost_reply else result)

        self.loop.call_later(seconds, arrived, context=self.loop.outside.context())
        return await answer

    def _effect(self, call: Sent, *, fails: bool) -> ToolResult:
        if fails:
            return _FAILED
        if call.tool_name not in READS:
            self.effects.append(call)
            self.history.add("tools", f"{call.tool_name} {call.token} of {call.process.name}")
        data = {"receipt": f"did {call.tool_name} {call.token}", "token": call.token}
        if call.tool_name in READS:
            data["state"] = self.state(call.token)
        return ToolResult(success=True, data=data)


class SimulatedTools:
    """A process's connection to the server: a `ToolServer`."""

    def __init__(self, world: ToolWorld, process: Process, *, redeclared: bool) -> None:
        self._world = world
        self._process = process
        self._declared = _REDECLARED if redeclared else DECLARATIONS

    async def start(self) -> bool:
        return True

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in DECLARATIONS]

    def declarations(self) -> list[ToolDeclaration]:
        return list(self._declared)

    def traits(self, tool_name: str) -> ToolTraits:
        return ToolTraits(read_only=tool_name in READS, destructive=False, ledger=tool_name in WITH_LEDGER)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        world = self._world
        token, amount = call.arguments["token"], call.arguments.get("amount", 0)
        sent = Sent(self._process, call.tool_name, token, call.user_id, call.operation_key, call.attempt, amount)
        if call.mutating:
            world.history.add(self._process.name, f"sends {sent.tool_name} {sent.token}")
            world.sent.append(sent)
            world.on_send(sent)
        fails = not world.healed and world.random.random() < world.faults.failing_tools
        return await self._answer(world.travel(lambda: world.run(sent, fails=fails)), deadline)

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        return await self._answer(self._world.travel(lambda: self._world.settle(call.operation_key)), deadline)

    async def preview(self, *_: Any, **__: Any) -> ToolResult:
        raise AssertionError("no tool has a preview")

    async def _answer(self, answer: Any, deadline: float | None) -> ToolResult:
        # Some connections keep no deadline.
        limit = None if self._world.random.random() < 0.3 else deadline
        try:
            async with asyncio.timeout(limit):
                result: ToolResult = await answer
        except TimeoutError:
            return _LOST
        return result
