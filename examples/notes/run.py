"""A second domain with an operation ledger: notes, the same runtime.

    python examples/notes/run.py

The model is scripted, so that the example runs offline. With a key, give the engine a `GeminiAdapter` instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from server import build_notes  # the file beside this one

from graph_agent import DecisionContext, FunctionCall, LLMAgentEngine, LLMResponse, McpToolExecutor, ScriptedAdapter
from graph_agent.db import Database
from graph_agent.testing import calls, says

CONSTITUTION = Path(__file__).with_name("constitution.md").read_text()


def script(note_id: str) -> Iterator[LLMResponse]:
    yield calls("find_notes", words="milk")
    yield says("You noted 'buy milk'.")
    yield calls("delete_note", note_id=note_id)


async def main() -> None:
    async with McpToolExecutor(build_notes(Database.open("sqlite://"))) as notes:
        # Without a model the guard judges a call as it judges a model's, and the decision is recorded.
        write = FunctionCall(name="write_note", arguments={"text": "buy milk"})
        written = await LLMAgentEngine(ScriptedAdapter([]), notes, CONSTITUTION).call("ann", [write, write])
        first, again = (made.result for made in written.record.invocations)
        print(f"called twice in one decision: {first['preview']!r}; the same note: {first == again}")

        agent = LLMAgentEngine(ScriptedAdapter(list(script(first["note_id"]))), notes, CONSTITUTION)
        pending = None
        for message in ("what about milk?", "delete it", "yes"):
            context = DecisionContext(user_id="ann", message=message, conversation_id="c", pending_confirmation=pending)
            decision = await agent.process_message(context)
            pending = decision.pending_action
            print(f"you> {message}\n{decision.reply}")
            for receipt in decision.effects:
                print(f"  ✓ {receipt}")


if __name__ == "__main__":
    asyncio.run(main())
