"""Ask a user about the deletion of tasks, or answer the question with yes; kill this process at one of its commits.

Run as `answering_process HOME URL COMMIT before|after USER QUESTION TASK...`, with the number of the commit, from 1, and the id
of the question, or `-` to ask it. It ends normally if there are fewer commits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ConfirmationAnswer
from tests.chat.environment import open_environment
from tests.crashing_database import CrashingDatabase
from tests.scripted_turns import calls


async def main(home: str, url: str, fatal: str, when: str, user: str, question: str, *tasks: str) -> None:
    async with open_environment(Path(home), None, url=url) as environment:
        database = environment.open_database(CrashingDatabase)
        database.fatal, database.when = int(fatal), when
        if question == "-":
            card = calls(*[("delete_task", {"task_id": one}) for one in tasks])
            await environment.chat(ScriptedAdapter([card]), database=database).send(user, "delete them")
        else:
            chat = environment.chat(ScriptedAdapter([]), database=database)
            await chat.send(user, answers=ConfirmationAnswer(pending_action=question, yes=True))
        await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
