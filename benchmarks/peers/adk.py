"""Google's Agent Development Kit, with its `DatabaseSessionService` on SQLite where a conversation is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.adk.tools import BaseTool
from google.genai import types

from benchmarks.peers.files import growth
from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = "google-adk"


class _InstantLlm(BaseLlm):
    """Calls the tool in so many rounds, then says one sentence."""

    rounds: int

    async def generate_content_async(self, llm_request: LlmRequest, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse, None]:
        done = 0
        for content in reversed(llm_request.contents):
            parts = content.parts or []
            if content.role == "user" and any(part.text for part in parts):
                break
            done += any(part.function_call is not None for part in parts)
        part = (
            types.Part.from_function_call(name=TOOL, args={"description": f"task {done}"})
            if done < self.rounds
            else types.Part.from_text(text=ANSWER)
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class _Tool(BaseTool):
    """A tool of the task server, in the process."""

    def __init__(self, name: str, description: str, parameters: Any) -> None:
        super().__init__(name=name, description=description)
        self._parameters = parameters

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=self._parameters)

    async def run_async(self, *, args: dict[str, Any], **_: Any) -> Any:
        return {"result": await act(**args)}


def _runner(rounds: int, sessions: BaseSessionService) -> Runner:
    tools = [_Tool(each.name, each.description, each.parameters) for each in TASK_TOOLS]
    # A function, because braces in a plain text are placeholders.
    agent = LlmAgent(
        name="tasks", model=_InstantLlm(model="instant", rounds=rounds), instruction=lambda _: PROMPT, tools=[*tools]
    )
    return Runner(app_name="tasks", agent=agent, session_service=sessions)


def _said(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part.from_text(text=text)])


async def _run(runner: Runner, session_id: str) -> None:
    async for _ in runner.run_async(user_id="ann", session_id=session_id, new_message=_said("user", MESSAGE)):
        pass


def turn_of(rounds: int, texts: Sequence[str] = ()) -> Turn:
    """Return a function that runs one turn after `texts`, in a new session in memory."""
    sessions = InMemorySessionService()
    runner = _runner(rounds, sessions)

    async def turn() -> None:
        session = await sessions.create_session(app_name="tasks", user_id="ann")
        for number, text in enumerate(texts):
            author, role = ("user", "user") if number % 2 == 0 else ("tasks", "model")
            await sessions.append_event(session, Event(author=author, content=_said(role, text)))
        await _run(runner, session.id)
        await sessions.delete_session(app_name="tasks", user_id="ann", session_id=session.id)

    return turn


def conversation(folder: str, _: object) -> Conversation:
    """Return one conversation of a `DatabaseSessionService`."""
    sessions = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/sessions.db")
    runner = _runner(1, sessions)

    async def turn() -> int:
        if await sessions.get_session(app_name="tasks", user_id="ann", session_id="c") is None:
            await sessions.create_session(app_name="tasks", user_id="ann", session_id="c")
        with growth(folder) as grown:
            await _run(runner, "c")
        return grown()

    return turn
