"""A tiny world for the adapter: a task list in memory and a loop that plays turns, without engine or server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.llm.declarations import TASK_TOOLS
from graph_agent.rules_model import RuleBasedAdapter
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, ToolDeclaration

MUTATING = frozenset({"add_task", "update_task", "complete_task", "delete_task"})
REPLY_FORMS = (
    ToolDeclaration(name="ask_user", description="Ask.", parameters={"type": "object"}),
    ToolDeclaration(name="decline", description="Decline.", parameters={"type": "object"}),
)


@dataclass(frozen=True)
class Turn:
    """What one message led to: `kind` is answer, ask, decline or confirm (a deletion waits for the user)."""

    kind: str
    text: str
    reason: str | None
    batches: tuple[tuple[FunctionCall, ...], ...]

    @property
    def called(self) -> list[str]:
        return [call.name for batch in self.batches for call in batch]

    @property
    def mutated(self) -> bool:
        return bool(MUTATING.intersection(self.called))


@dataclass
class World:
    """`tasks` are newest first. `failing` gives the answer of a tool instead of running it."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    tools: list[ToolDeclaration] = field(default_factory=lambda: [*TASK_TOOLS, *REPLY_FORMS])
    history: list[LLMMessage] = field(default_factory=list)
    failing: dict[str, dict[str, Any]] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def of(cls, *descriptions: str, completed: tuple[str, ...] = ()) -> World:
        """A world with these tasks, the first one newest."""
        world = cls()
        for text in reversed(descriptions):
            world.put(text, completed=text in completed)
        return world

    def put(self, description: str, *, completed: bool = False) -> dict[str, Any]:
        self.count += 1
        status = "completed" if completed else "pending"
        task = {"id": f"id-{self.count}", "description": description, "status": status, "created_at": "", "completed_at": None}
        self.tasks.insert(0, task)
        return task

    @property
    def open(self) -> list[str]:
        return [task["description"] for task in self.tasks if task["status"] == "pending"]

    @property
    def done(self) -> list[str]:
        return [task["description"] for task in self.tasks if task["status"] == "completed"]

    async def says(self, message: str, *, adapter: RuleBasedAdapter | None = None) -> Turn:
        """Play one turn and remember what was said."""
        turn = await self._play(message, adapter or RuleBasedAdapter())
        self.history += [LLMMessage(role="user", content=message), LLMMessage(role="assistant", content=turn.text)]
        return turn

    async def _play(self, message: str, adapter: RuleBasedAdapter) -> Turn:
        messages = [*self.history, LLMMessage(role="user", content=message)]
        batches: list[tuple[FunctionCall, ...]] = []
        for _ in range(6):
            response = await adapter.generate(messages, self.tools)
            calls = response.function_calls or []
            if not calls:
                assert response.finish_reason == "stop"
                assert response.content
                return Turn("answer", response.content, None, tuple(batches))
            assert response.finish_reason == "tool_calls"
            assert len(calls) <= 5
            if calls[0].name in {"ask_user", "decline"}:
                assert len(calls) == 1
                arguments = calls[0].arguments
                if calls[0].name == "ask_user":
                    return Turn("ask", arguments["question"], arguments["reason"], tuple(batches))
                return Turn("decline", arguments["message"], None, tuple(batches))
            batches.append(tuple(calls))
            messages.append(LLMMessage(role="assistant", function_calls=calls))
            for call in calls:
                if call.name == "delete_task" and call.name not in self.failing:
                    shown = next(task["description"] for task in self.tasks if task["id"] == call.arguments["task_id"])
                    return Turn("confirm", f"Delete '{shown}'? Please answer yes or no.", None, tuple(batches))
                answer = FunctionResponse(name=call.name, response=self.failing.get(call.name) or self._run(call))
                messages.append(LLMMessage(role="function", function_response=answer))
        raise AssertionError("the adapter did not come to an end")

    def _run(self, call: FunctionCall) -> dict[str, Any]:
        arguments = call.arguments
        if call.name == "list_tasks":
            wanted = arguments.get("status", "all")
            chosen = [dict(task) for task in self.tasks if wanted in {"all", task["status"]}]
            return {"success": True, "data": {"tasks": chosen, "count": len(chosen)}, "error": None, "error_code": None}
        if call.name == "add_task":
            task = self.put(arguments["description"])
        else:
            task = next(task for task in self.tasks if task["id"] == arguments["task_id"])
            if call.name == "complete_task":
                task["status"] = "completed"
            else:
                task["description"] = arguments["description"]
        return {"success": True, "data": {"task": dict(task), "receipt": "done"}, "error": None, "error_code": None}
