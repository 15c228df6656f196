"""A scripted session at the desk of a small shop.

    python examples/returns_desk/run.py

The model is scripted, so that the example runs offline. With a key, give the engine a `GeminiAdapter` instead.
"""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

from server import build_desk  # the file beside this one

from graph_agent import FunctionCall, LLMResponse, McpToolExecutor
from graph_agent.db import Database
from graph_agent.testing import open_installation, says

FOLDER = Path(__file__).parent
CONSTITUTION = (FOLDER / "constitution.md").read_text(encoding="utf-8")
CONDITIONS = (FOLDER / "policy.cedar").read_text(encoding="utf-8")
TODAY = date(2026, 11, 20)


def calls(*requested: tuple[str, dict[str, Any]]) -> LLMResponse:
    """Return the response of a model that makes these calls in one round."""
    return LLMResponse(function_calls=[FunctionCall(*one) for one in requested], finish_reason="tool_calls")


SESSION = {
    "Please cancel order FH-2087": [
        calls(("cancel_order", {"order_id": "FH-2087"})),
        says("Gladly. First tell me your e-mail address and your postal code, please."),
    ],
    "ines.karlsen@example.com, 24103": [
        calls(("find_customer", {"email": "ines.karlsen@example.com", "postcode": "24103"})),
        calls(("get_order", {"order_id": "FH-2087"}), ("get_order", {"order_id": "FH-2079"})),
        says("Good day, Ms. Karlsen. FH-2087 has not left us yet, FH-2079 is on its way. What shall I do?"),
    ],
    "Cancel both, please": [
        calls(("cancel_order", {"order_id": "FH-2087"}), ("cancel_order", {"order_id": "FH-2079"})),
    ],
    "yes": [],
    "It was to come on Wednesday!": [
        calls(("give_store_credit", {"order_id": "FH-2079", "amount": 10.0, "reason": "late"})),
        says("I am sorry that it is late. You have 10 euros more of store credit."),
    ],
    "Make it 50": [
        calls(("give_store_credit", {"order_id": "FH-2079", "amount": 50.0, "reason": "late"})),
        says("I cannot give that much. Maren in the workshop can decide about it."),
    ],
}
"""The customer's messages, and the model's response to each."""


async def main() -> None:
    script = [response for responses in SESSION.values() for response in responses]
    async with (
        McpToolExecutor(build_desk(Database.open("sqlite://"), today=TODAY)) as desk,
        open_installation(desk, CONSTITUTION, script, conditions=CONDITIONS) as client,
    ):
        for message in SESSION:
            decision = (await client.send(message)).decision
            print(f"you> {message}\n{decision.reply}")
            for receipt in decision.effects:
                print(f"  ✓ {receipt}")
            for notice in decision.notices:
                print(f"  ! {notice}")


if __name__ == "__main__":
    asyncio.run(main())
