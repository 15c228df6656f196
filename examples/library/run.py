"""A second domain: another server, another constitution, the same runtime.

    python examples/library/run.py

The model is scripted, so that the example runs offline. With a key, give the engine a `GeminiAdapter` instead.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from server import build_library  # the file beside this one

from graph_agent import DecisionContext, LLMAgentEngine, McpToolExecutor, ScriptedAdapter
from graph_agent.testing import calls, says

SCRIPT = [
    calls("find_books", title="moby"),
    calls("lend_book", mark="M 9"),
    says("Moby-Dick is yours for two weeks."),
    calls("burn_book", mark="M 7"),
    says("I can't do that."),
    calls("give_back", mark="M 9"),
]


async def main() -> None:
    constitution = Path(__file__).with_name("constitution.md").read_text()
    async with McpToolExecutor(build_library()) as library:
        desk = LLMAgentEngine(ScriptedAdapter(SCRIPT), library, constitution)
        pending = None
        for message in ("I'd like Moby-Dick", "burn Middlemarch", "here is Moby-Dick back", "yes"):
            context = DecisionContext(user_id="ann", message=message, conversation_id="desk", pending_confirmation=pending)
            decision = await desk.process_message(context)
            pending = decision.pending_action
            print(f"you> {message}\n{decision.reply}")
            for receipt in decision.effects:
                print(f"  ✓ {receipt}")


if __name__ == "__main__":
    asyncio.run(main())
