"""Say yes to a plan of two additions, and make them under it; kill this process at one of its commits.

Run as `planning_process HOME URL COMMIT before|after USER QUESTION`, with the number of the commit, from 1. It ends normally if
there are fewer commits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from graph_agent.chat.service import ChatService
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.testing import says
from tests.chat.environment import Environment, open_environment
from tests.crashing_database import CrashingDatabase
from tests.scripted_turns import calls

_ADDS = '- add_task: "Add task[ {description}]"'
IN_PLANS = Constitution.load(None).text.replace(_ADDS, f"{_ADDS} (in plans)")
ASKS = """permit (principal, action, resource);
@id("additions need a yes") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };"""
PLAN = calls(
    ("propose_plan", {"lines": [{"tool": "add_task", "arguments": {"description": {"is": ["bread", "milk"]}}, "times": 2}]})
)


def adds(description: str) -> Any:
    return calls(("add_task", {"description": description}))


def chat_of(environment: Environment, *script: Any, **more: Any) -> ChatService:
    """Return the chat service of a process whose rules ask about each addition, unless a plan covers it."""
    return environment.chat(ScriptedAdapter(script), conditions=ConditionsFile(ASKS), constitution=IN_PLANS, **more)


async def main(home: str, url: str, fatal: str, when: str, user: str, question: str) -> None:
    async with open_environment(Path(home), None, url=url) as environment:
        database = environment.open_database(CrashingDatabase)
        database.fatal, database.when = int(fatal), when
        chat = chat_of(environment, adds("bread"), adds("milk"), says("Done."), database=database)
        await chat.send(user, answers=ConfirmationAnswer(pending_action=question, yes=True))
        await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
