"""A user of the chat service with the embedded model or another, over real databases and the real task server."""

from __future__ import annotations

from graph_agent.ports import LLMAdapter
from graph_agent.task_server.models import Task, TaskStatus
from graph_agent.task_server.store import list_newest_first
from tests.acceptance.cases import Outcome
from tests.chat.environment import Environment
from tests.permission import permitted


class User:
    """One user with tasks and one conversation."""

    def __init__(self, environment: Environment, user_id: str, model: LLMAdapter | None = None) -> None:
        self._environment = environment
        self._chat = environment.chat(model)
        self._id = user_id
        self._conversation: str | None = None

    async def has(self, given: list[str]) -> None:
        """Store the tasks `given`, the first of the printed list first; "x " marks a completed one."""
        for text in reversed(given):
            description = text.removeprefix("x ")
            added = await self._environment.tools.execute(permitted("add_task", {"description": description}, self._id))
            assert added.success, added.error
            if text != description:
                newest, *_ = await self._stored()
                done = await self._environment.tools.execute(permitted("complete_task", {"task_id": newest.id}, self._id))
                assert done.success, done.error

    async def tasks(self) -> list[str]:
        """Return the user's tasks in the order of the printed list; "x " marks a completed one."""
        return [
            f"x {task.description}" if task.status is TaskStatus.COMPLETED else task.description
            for task in await self._stored()
        ]

    async def say(self, text: str) -> Outcome:
        """Send a message in the user's conversation."""
        answer = await self._chat.send(self._id, text, conversation_id=self._conversation)
        self._conversation = answer.conversation_id
        return Outcome(answer.decision, await self.tasks())

    async def _stored(self) -> list[Task]:
        return await self._environment.database.read(lambda connection: list_newest_first(connection, self._id))
