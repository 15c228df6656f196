"""The public way to test your own tools, rules and front ends: an installation in memory, fakes, and a desk to try them on.

    model = [calls("book_table", table=7), says("Booked.")]
    async with open_installation(FunctionTools(book_table), constitution, model) as client:
        answer = await client.send("book table 7")

Guard, confirmations, conditions, record and chat are those of a server; nothing needs a key, a network or a file.
"""

from __future__ import annotations

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.llm.scripted import ScriptedAdapter, ScriptExhaustedError
from graph_agent.testing.desk import OrderDesk
from graph_agent.testing.desk_server import DeskServer
from graph_agent.testing.installation import TestClient, calls, open_installation, says
from graph_agent.tools.played import PlayedResult, PlayedTool, PlayedTools

__all__ = [
    "DeskServer",
    "ManualClock",
    "OrderDesk",
    "PlayedResult",
    "PlayedTool",
    "PlayedTools",
    "ScriptExhaustedError",
    "ScriptedAdapter",
    "SequentialIds",
    "TestClient",
    "calls",
    "open_installation",
    "says",
]
