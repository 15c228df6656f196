"""Random conversations with the order desk, each from its seed: rules, calls, failures, answers and changes meanwhile.

python -m tests.invariants.random_conversations SEED ...    print what happened in these conversations
python -m tests.invariants.random_conversations --renew     store the digests of all of them, after an intended change
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import OrderDesk, says
from graph_agent.turn.finished import FinishedTurn
from tests import desk
from tests.scripted_turns import calls, failed

SEEDS: Final = 400
DIGESTS: Final = Path(__file__).with_name("random_conversations.json")
"""The digest of each conversation, by its seed."""
WRITES: Final = ("cancel_order", "return_items", "exchange")
_TURNS = 3

_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    desk.cancel("W1"),
    desk.cancel("W2"),
    desk.cancel("W9"),
    desk.give_back("W1", "card_1"),
    desk.give_back("W2", "gift_1"),
    desk.exchange("W1", "p1"),
    desk.exchange("W2", "p2"),
    ("get_order", {"order_id": "W1"}),
    ("get_order", {"order_id": "W2"}),
    ("get_customer", {"customer_id": "u1"}),
    ("get_product", {"product_id": "p1"}),
    # None of these may ever be sent.
    ("nothing", {}),
    ("cancel_order", {"order_id": 7}),
    ("get_order", {"order_id": "W1", "user_id": "bob"}),
)
_ANY_ORDER = "permit (principal, action, resource);"
_RULES = {
    "confirmed": 'forbid (principal, action == Action::"cancel_order", resource) unless { context.confirmed };',
    "calls": "forbid (principal, action, resource) when { context.used.message.calls > 2 };",
    "writes": "forbid (principal, action, resource) when { context.used.message.writes > 2 };",
    "day": 'forbid (principal, action == Action::"exchange", resource) when { context.used.day.calls > 2 };',
    "looked": 'forbid (principal, action == Action::"return_items", resource) '
    'unless { context.succeeded.contains(Action::"get_order") };',
    "no exchange before": 'forbid (principal, action == Action::"cancel_order", resource) '
    'when { context.attempted.contains(Action::"exchange") };',
    "in the shadow": '@shadow forbid (principal, action == Action::"cancel_order", resource);',
}
_MARKERS = (
    "(requires confirmation)",
    "(without confirmation) (at most 1 per message)",
    "(requires confirmation) (at most 2 per message)",
)
_FAILURES = (None, None, None, ToolErrorCode.TOOL_EXECUTION_ERROR, ToolErrorCode.TIMEOUT_ERROR)


@dataclass
class Played:
    """A conversation that was played to its end."""

    seed: int
    rules: tuple[str, ...]
    """The names of the rules that were in force."""
    limits: dict[str, int]
    """The limits per message, by tool."""
    asks: frozenset[str]
    """The tools that need the user's yes."""
    desk: OrderDesk
    cancelled: list[str]
    """The status of each order when its cancellation arrived at the desk."""
    turns: list[FinishedTurn] = field(default_factory=list)

    def outcome(self) -> dict[str, Any]:
        """Return what became of each call, and the answers that were recorded: no texts, which have tests of their own."""
        turns = [
            {
                "dry run": turn.record.header.context.dry_run,
                "states": [str(state) for state in turn.record.states],
                "entries": [str(entry.kind) for entry in turn.record.entries],
                "calls": [
                    [one.tool_name, canonical_json(one.parameters), str(one.disposition), one.gate, one.error_code]
                    for one in turn.record.invocations
                ],
                "shadow": [[str(verdict.decision) for verdict in one.shadow] for one in turn.record.invocations],
                "asks": turn.decision.pending_action is not None,
                "decision": turn.decision.decision_type,
            }
            for turn in self.turns
        ]
        return {"rules": self.rules, "turns": turns, "sent": self.desk.made}


async def play(seed: int) -> Played:
    """Play the conversation of a seed. Each of its turns is replayed, and must give the same."""
    rng = random.Random(seed)
    chosen = tuple(sorted(rng.sample([*_RULES], rng.randint(0, 3))))
    facts = rng.random() < 0.6
    rules = "\n".join([desk.ONLY_PENDING if facts else _ANY_ORDER, *(f'@id("{name}") {_RULES[name]}' for name in chosen)])
    markers = {tool: rng.choice(_MARKERS) for tool in WRITES if rng.random() < 0.35}
    constitution = desk.CONSTITUTION
    for tool, marker in markers.items():
        constitution = re.sub(rf"(- {tool}: [^(]*)\(without confirmation\)", rf"\1{marker}", constitution)
    made, cancelled = _desk(rng, seed)
    played = Played(
        seed,
        (*chosen, *(["only a pending order"] if facts else [])),
        {tool: int(found[1]) for tool, marker in markers.items() if (found := re.search(r"at most (\d)", marker))},
        frozenset(tool for tool, marker in markers.items() if "requires" in marker),
        made,
        cancelled,
    )
    script = [response for _ in range(_TURNS) for response in _responses(rng)]
    with tempfile.TemporaryDirectory() as home:
        log, clock = Database.open(f"sqlite:///{home}/log.db"), ManualClock()
        log.write_now(tree_leaves.metadata.create_all)
        audit = DatabaseAuditWriter(log, clock=clock)
        settings: dict[str, Any] = {"desk": played.desk, "constitution": constitution, "clock": clock, "ids": RandomIds()}
        run = desk.conversation(rules, *script, *[says("Done.")] * 12, audit=audit, **settings)
        for _ in range(_TURNS):
            asked = bool(run.turns) and run.turns[-1].decision.pending_action is not None
            if asked and rng.random() < 0.2:
                played.desk.orders[rng.choice(["W1", "W2"])]["status"] = rng.choice(["pending", "lost"])
            if asked and rng.random() < 0.8:
                await run.say("yes")
            else:
                await run.say(dry_run=not asked and rng.random() < 0.2)
        played.turns = run.turns
    return played


def _desk(rng: random.Random, seed: int) -> tuple[OrderDesk, list[str]]:
    cancelled: list[str] = []
    made = OrderDesk(previewed={"cancel_order"} if rng.random() < 0.3 else set())
    for tool in WRITES:

        def perform(given: dict[str, Any], tool: str = tool) -> ToolResult:
            # The same call fails in the same way whenever it is made.
            code = random.Random(f"{seed}{tool}{canonical_json(given)}").choice(_FAILURES)
            order = made.orders.get(given["order_id"])
            if tool == "cancel_order":
                cancelled.append("missing" if order is None else order["status"])
            if order is None:
                code = ToolErrorCode.NOT_FOUND
            return made.perform(tool, given) if code is None else failed(code)

        made.answers[tool] = perform
    return made, cancelled


def _responses(rng: random.Random) -> list[LLMResponse]:
    batches = [calls(*rng.choices(_CALLS, k=rng.randint(1, 6))) for _ in range(1 + (rng.random() < 0.4))]
    return [*batches, says("Done.")]


def random_batch(rng: random.Random) -> list[FunctionCall]:
    return [FunctionCall(name=name, arguments=given) for name, given in rng.choices(_CALLS, k=rng.randint(1, 7))]


def digest_of(played: Played) -> str:
    return digest(played.outcome())[:16]


def stored_digests() -> dict[int, str]:
    return {int(seed): found for seed, found in json.loads(DIGESTS.read_text()).items()}


async def main(arguments: list[str]) -> None:
    if arguments == ["--renew"]:
        found = {str(seed): digest_of(await play(seed)) for seed in range(SEEDS)}
        DIGESTS.write_text(json.dumps(found, indent=0) + "\n")
        return
    for seed in map(int, arguments):
        print(json.dumps((await play(seed)).outcome(), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
