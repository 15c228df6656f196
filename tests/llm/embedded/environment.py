"""A task list in memory and a loop that runs the turns of a conversation, without engine or server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, ToolDeclaration
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.reply.forms import REPLY_FORM_DECLARATIONS, REPLY_FORMS, read_form
from graph_agent.task_server.declarations import TASK_TOOLS

MUTATING = frozenset({"add_task", "update_task", "complete_task", "delete_task"})


@dataclass(frozen=True)
class Turn:
    """The end of a turn: `kind` is answer, question, refusal or confirm (a deletion waits for the user)."""

    kind: str
    text: str
    reason: str | None = None
    batches: tuple[tuple[FunctionCall, ...], ...] = ()
    reports_change: bool = False

    @property
    def called(self) -> list[str]:
        return [call.name for batch in self.batches for call in batch]

    @property
    def mutated(self) -> bool:
        return bool(MUTATING.intersection(self.called))


@dataclass
class TaskConversation:
    """`tasks` are newest first. A tool in `failing` returns the given response instead of running."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    tools: list[ToolDeclaration] = field(default_factory=lambda: [*TASK_TOOLS, *REPLY_FORM_DECLARATIONS])
    history: list[LLMMessage] = field(default_factory=list)
    failing: dict[str, dict[str, Any]] = field(default_factory=dict)
    pending: str | None = None
    count: int = 0

    @classmethod
    def of(cls, *descriptions: str, completed: tuple[str, ...] = ()) -> TaskConversation:
        """An environment with these tasks, the first one newest."""
        environment = cls()
        for text in reversed(descriptions):
            environment.put(text, completed=text in completed)
        return environment

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

    async def says(self, message: str) -> Turn:
        """Run one turn and remember what was said. A pending deletion is answered as the engine answers it."""
        waiting, self.pending = self.pending, None
        consent = read_consent(message, [("Delete task",)])
        if waiting is not None and consent in (Consent.YES, Consent.NO):
            turn = self._answered(waiting, delete=consent is Consent.YES)
        else:
            turn = await self._run(message)
        self.history += [LLMMessage(role="user", content=message), LLMMessage(role="assistant", content=turn.text)]
        return turn

    def _answered(self, task_id: str, *, delete: bool) -> Turn:
        if not delete:
            return Turn("answer", "OK, I won't do that. Nothing was changed.")
        task = next(task for task in self.tasks if task["id"] == task_id)
        self.tasks.remove(task)
        return Turn("answer", f"Done: Delete task '{task['description']}'.")

    async def _run(self, message: str) -> Turn:
        messages = [*self.history, LLMMessage(role="user", content=message)]
        batches: list[tuple[FunctionCall, ...]] = []
        for _ in range(5):
            response = await EmbeddedAdapter().generate(messages, self.tools)
            calls = response.function_calls or []
            if not calls:
                assert response.finish_reason == "stop"
                assert response.content
                return Turn("answer", response.content, None, tuple(batches))
            assert response.finish_reason == "tool_calls"
            assert len(calls) <= 5
            if calls[0].name in REPLY_FORMS:
                assert len(calls) == 1
                form = read_form(calls[0])
                assert form is not None
                return Turn(form.kind, form.text, calls[0].arguments.get("reason"), tuple(batches), form.reports_change)
            batches.append(tuple(calls))
            messages.append(LLMMessage(role="assistant", function_calls=calls))
            for call in calls:
                if call.name == "delete_task" and call.name not in self.failing:
                    self.pending = call.arguments["task_id"]
                    shown = next(task["description"] for task in self.tasks if task["id"] == self.pending)
                    question = f"Delete task '{shown}'. Should I go ahead? Please answer yes or no."
                    return Turn("confirm", question, None, tuple(batches))
                answer = FunctionResponse(name=call.name, response=self.failing.get(call.name) or self._do(call))
                messages.append(LLMMessage(role="function", function_response=answer))
        raise AssertionError("the turn did not end within five responses")

    def _do(self, call: FunctionCall) -> dict[str, Any]:
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
