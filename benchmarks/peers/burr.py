"""Burr: a state machine of its actions for the model and the tool, with its SQLite persister where a conversation is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burr.core import Application, ApplicationBuilder, State, action, expr
from burr.core.persistence import SQLitePersister

from benchmarks.peers.files import growth
from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act

PACKAGE = "apache-burr"


def _builder(rounds: int) -> ApplicationBuilder[Any]:
    @action(reads=["messages"], writes=["messages", "done", "called"])
    async def ask(state: State, message: str) -> State:
        return state.append(messages={"role": "user", "content": message}).update(done=0, called=True)

    @action(reads=["messages", "done"], writes=["messages", "called"])
    async def think(state: State) -> State:
        called = state["done"] < rounds
        call = {"name": TOOL, "arguments": {"description": f"task {state['done']}"}}
        said = {"role": "assistant", "calls": [call]} if called else {"role": "assistant", "content": ANSWER}
        return state.append(messages=said).update(called=called)

    @action(reads=["messages", "done"], writes=["messages", "done"])
    async def use_tool(state: State) -> State:
        (call,) = state["messages"][-1]["calls"]
        return state.append(messages={"role": "tool", "content": await act(**call["arguments"])}).update(done=state["done"] + 1)

    return (
        ApplicationBuilder()
        .with_actions(ask=ask, think=think, use_tool=use_tool)
        .with_transitions(("ask", "think"), ("think", "use_tool", expr("called")), ("think", "ask"), ("use_tool", "think"))
    )


async def _run(application: Application[Any]) -> None:
    while True:
        step, _, state = await application.arun(halt_after=["think"], inputs={"message": MESSAGE})
        if step.name == "think" and not state["called"]:
            return


def _first(texts: Sequence[str]) -> list[dict[str, str]]:
    said = [{"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(texts)]
    return [{"role": "system", "content": PROMPT}, *said]


def turn_of(rounds: int, texts: Sequence[str] = ()) -> Turn:
    """Return a function that runs one turn after `texts`, in a new application."""

    async def turn() -> None:
        state = State({"messages": _first(texts)})
        await _run(await _builder(rounds).with_state(state).with_entrypoint("ask").abuild())

    return turn


def conversation(folder: str, _: object) -> Conversation:
    """Return one conversation of an application that its persister saves after each action."""
    persister = SQLitePersister(f"{folder}/burr.db", "state")
    persister.initialize()
    application = (
        _builder(1)
        .with_state(State({"messages": _first(())}))
        .with_entrypoint("ask")
        .with_identifiers(app_id="c")
        .with_state_persister(persister)
        .build()
    )

    async def turn() -> int:
        with growth(folder) as grown:
            await _run(application)
        return grown()

    return turn
