"""Messages, questions and model calls per conversation at the desk of a shop, by what follows a yes.

    python -m benchmarks.desk [FILE]

Each conversation is one request for several changes, at the server of `examples/returns_desk` through the real engine. Some
changes are refused by the server, and some orders leave the shop between question and answer. The model requests the changes
in rounds, says why one failed if it has read it, and otherwise looks at the order when the user asks. The user answers each
question with yes, and writes again as long as a change is neither done nor explained: these are the extra messages.

FILE has conversations to play instead of the generated ones, one JSON object a line: under "rounds" a list of rounds, each
a list of changes `[TOOL, ARGUMENTS]`, and under "shipped" the orders that leave the shop before the first answer.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from graph_agent.chat.answer import ChatAnswer
from graph_agent.db import Database
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AfterYes, PendingAction, ShownQuestion
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMRequest, LLMResponse
from graph_agent.testing import TestClient, open_installation, says
from graph_agent.tools.executor import McpToolExecutor
from tests.returns_desk import CONSTITUTION, build_desk

SEED = 44
CONVERSATIONS = 60
MAX_MESSAGES = 40
_REST, _WHY = "And the rest, please.", "Why was that not done?"

_POSSIBLE: Mapping[str, FunctionCall] = {
    "cancelled order FH-2088": FunctionCall("cancel_order", {"order_id": "FH-2088"}),
    "cancelled order FH-2079": FunctionCall("cancel_order", {"order_id": "FH-2079"}),
    "order FH-2087 goes to": FunctionCall(
        "change_address", {"order_id": "FH-2087", "street": "Holm 1", "postcode": "24937", "city": "Flensburg"}
    ),
    "Camp kettle 2 liters of order FH-2090": FunctionCall(
        "change_items", {"order_id": "FH-2090", "item_ids": ["2090-1"], "new_skus": ["KET-1L"]}
    ),
    "of order FH-2031 can be sent back": FunctionCall(
        "return_items", {"order_id": "FH-2031", "item_ids": ["2031-1"], "refund_to": "card-104"}
    ),
    "of order FH-2031 will be exchanged": FunctionCall(
        "exchange_items", {"order_id": "FH-2031", "item_ids": ["2031-2"], "new_skus": ["LAN-BLK"]}
    ),
}
"""The changes of the generated conversations; the keys only name them. The second and the last are refused by the server."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The changes that a user wants, in the rounds in which the model requests them."""

    rounds: Sequence[Sequence[FunctionCall]]
    shipped: Sequence[str] = ()
    """The orders that leave the shop before the first answer."""


@dataclass(slots=True)
class Changes:
    """The outcome of the changes of a conversation."""

    rounds: Sequence[Sequence[FunctionCall]]
    done: list[FunctionCall] = field(default_factory=list)
    failed: list[FunctionCall] = field(default_factory=list)
    explained: list[FunctionCall] = field(default_factory=list)

    def open_round(self) -> list[FunctionCall]:
        """Return the changes of the next round that are neither done nor failed; empty after the last."""
        for one in self.rounds:
            if left := [call for call in one if call not in self.done and call not in self.failed]:
                return left
        return []

    def note(self, call: FunctionCall, *, succeeded: bool) -> None:
        known = self.done if succeeded else self.failed
        if call not in known:
            known.append(call)


class DeskModel(RequestAdapter):
    """Requests the open changes round by round, and explains those that it has seen fail."""

    model = "desk"

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes
        self.calls = 0

    async def respond(self, request: LLMRequest) -> LLMResponse:
        self.calls += 1
        start = max(index for index, message in enumerate(request.messages) if message.role == "user")
        answered = list(_answered(request, start))
        for call, response in answered:
            if call.name != "get_order":
                self._changes.note(call, succeeded=response.response["success"])
                if not response.response["success"]:
                    break  # What is behind it on the card was not tried.
        if request.messages[start].content == _WHY and not answered:
            order = self._changes.failed[-1].arguments["order_id"]
            return LLMResponse(function_calls=[FunctionCall("get_order", {"order_id": order})], finish_reason="tool_calls")
        if left := self._changes.open_round():
            return LLMResponse(function_calls=left, finish_reason="tool_calls")
        self._changes.explained = list(self._changes.failed)
        return says("This is what I could do, and why the rest was not possible.")


def _answered(request: LLMRequest, start: int) -> Iterator[tuple[FunctionCall, FunctionResponse]]:
    """Yield the calls since the message at `start` with their responses."""
    calls: list[FunctionCall] = []
    for message in request.messages[start:]:
        calls += message.function_calls or []
        if message.function_response is not None:
            called = calls.pop(0)
            yield FunctionCall(called.name, called.arguments), message.function_response


@dataclass(slots=True)
class Figures:
    """The sums over conversations."""

    extra_messages: int = 0
    questions: int = 0
    model_calls: int = 0
    done: int = 0
    failed: int = 0


async def play(conversation: Conversation, after_yes: AfterYes, figures: Figures) -> None:
    """Play one conversation to its end, in a new shop, and add its figures."""
    changes = Changes(conversation.rounds)
    model, config = DeskModel(changes), AgentEngineConfig(after_yes=after_yes)
    database = Database.open("sqlite://")
    async with (
        McpToolExecutor(build_desk(database)) as desk,
        open_installation(desk, CONSTITUTION, model, config=config) as client,
    ):
        answer = await client.send("I would like several things.")
        shipped = conversation.shipped
        for _ in range(MAX_MESSAGES):
            pending = answer.decision.pending_action
            if pending is not None:
                figures.questions += 1
                for order_id in shipped:
                    database.write_now(partial(_ship, order_id=order_id))
                shipped = ()
                answer = await _confirm(client, pending, changes)
            elif changes.open_round() or len(changes.explained) < len(changes.failed):
                figures.extra_messages += 1
                unexplained = [call for call in changes.failed if call not in changes.explained]
                answer = await client.send(_WHY if unexplained else _REST)
            else:
                break
        else:
            raise RuntimeError(f"a conversation did not end after {MAX_MESSAGES} messages: {conversation}")
    await database.close()
    figures.model_calls += model.calls
    figures.done += len(changes.done)
    figures.failed += len(changes.failed)


async def _confirm(client: TestClient, pending: PendingAction, changes: Changes) -> ChatAnswer:
    """Say yes, and note what has become of the calls of the card: they end at the first that was not done."""
    answer = await client.send("yes", shown=ShownQuestion(pending_action=pending.id))
    asked_anew = answer.decision.pending_action
    receipts = len(answer.decision.effects)
    for number, one in enumerate(pending.each):
        call = FunctionCall(one.tool_name, one.arguments)
        anew = asked_anew is not None and call in [FunctionCall(other.tool_name, other.arguments) for other in asked_anew.each]
        if number >= receipts and anew:
            break
        changes.note(call, succeeded=number < receipts)
        if number >= receipts:
            break
    return answer


def _ship(connection: Connection, order_id: str) -> None:
    connection.execute(text("UPDATE orders SET status = 'shipped' WHERE order_id = :order_id"), {"order_id": order_id})


def generated(seed: int, count: int) -> Iterator[Conversation]:
    """Yield conversations with one to four changes, about half of which the model requests in the round of the one before."""
    choice = random.Random(seed)
    for _ in range(count):
        wanted = choice.sample(list(_POSSIBLE.values()), choice.choices((1, 2, 3, 4), (4, 3, 2, 1))[0])
        rounds = [[wanted[0]]]
        for call in wanted[1:]:
            if choice.random() < 0.5:
                rounds[-1].append(call)
            else:
                rounds.append([call])
        leaves = choice.random() < 0.1
        yield Conversation(rounds, ("FH-2087", "FH-2088") if leaves else ())


def recorded(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        values: dict[str, Any] = json.loads(line)
        rounds = [[FunctionCall(tool, arguments) for tool, arguments in one] for one in values["rounds"]]
        yield Conversation(rounds, values.get("shipped", ()))


async def measure(conversations: Sequence[Conversation]) -> dict[AfterYes, Figures]:
    """Play all conversations with each setting."""
    found = {after_yes: Figures() for after_yes in AfterYes}
    for after_yes, figures in found.items():
        for conversation in conversations:
            await play(conversation, after_yes, figures)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    conversations = list(recorded(Path(arguments[0])) if arguments else generated(SEED, CONVERSATIONS))
    wanted = sum(len(one) for conversation in conversations for one in conversation.rounds)
    print(f"{len(conversations)} conversations with {wanted} changes; per conversation:")
    print(f"{'after a yes':<12}{'extra messages':>16}{'questions':>11}{'model calls':>13}{'done':>7}{'failed':>8}")
    for after_yes, figures in asyncio.run(measure(conversations)).items():
        extra, questions, calls, done, failed = (
            sum_ / len(conversations)
            for sum_ in (figures.extra_messages, figures.questions, figures.model_calls, figures.done, figures.failed)
        )
        print(f"{after_yes:<12}{extra:>16.2f}{questions:>11.2f}{calls:>13.2f}{done:>7.2f}{failed:>8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
