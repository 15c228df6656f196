"""Your Python functions as tools: no server, no schema by hand.

    python examples/functions.py

The model is scripted, so that the example runs offline. With a key, use a `GeminiAdapter()` instead.
"""

import asyncio

from graph_agent import DecisionContext, FunctionTools, LLMAgentEngine, ScriptedAdapter
from graph_agent.testing import calls


def free_tables(evening: str) -> list[int]:
    """List the tables that are free on an evening."""
    return [2, 7] if evening == "friday" else []


def book_table(table: int, people: int, user_id: str) -> str:
    """Book a table for the user."""
    return f"table {table} for {people} in the name of {user_id}"


constitution = """You book tables in a restaurant.

## Available Tools
- free_tables: List free tables (reads)
- book_table: Book a table (requires confirmation)
"""
script = [
    calls("free_tables", evening="friday"),
    calls("book_table", table=7, people=2),
]
agent = LLMAgentEngine(ScriptedAdapter(script), FunctionTools(free_tables, book_table), constitution)


async def converse() -> None:
    pending = None
    for message in ("a table for two on friday, please", "yes"):
        context = DecisionContext(user_id="ann", message=message, conversation_id="c", pending_confirmation=pending)
        decision = await agent.process_message(context)
        pending = decision.pending_action
        print(decision.reply)


asyncio.run(converse())
