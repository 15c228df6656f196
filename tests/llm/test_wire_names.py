"""The names of functions on the wire: valid for the provider, and the real ones everywhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from graph_agent.llm.config import LLMConfig
from graph_agent.llm.wire import GEMINI_NAME, OPENAI_NAME, WireNames
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, ToolDeclaration
from tests.llm.wire_apis import API, APIS, SIGNATURE, Call
from tests.llm.wire_server import says, serving

NAMES = [
    "add_task",
    "notes.write",
    "notes_write",
    "notes/write",
    "my server.write note",
    "1st",
    "ä",
    "x" * 65,
    "x" * 66,
    "a" * 60 + ".tool",
    "a" * 60 + ".todo",
]


def names_of(allowed: Any, tools: Iterable[str], called: Iterable[str] = ()) -> WireNames:
    declared = [ToolDeclaration(name=name, description="Does.", parameters={"type": "object"}) for name in tools]
    calls = [FunctionCall(name=name, arguments={}) for name in called]
    return WireNames(allowed, declared, [LLMMessage(role="assistant", function_calls=calls)] if calls else [])


@pytest.mark.parametrize("allowed", [OPENAI_NAME, GEMINI_NAME], ids=["openai", "gemini"])
def test_wire_names_are_valid_unique_stable_and_reversible(allowed: Any) -> None:
    names = names_of(allowed, NAMES)
    sent = [names.wire(name) for name in NAMES]
    assert all(allowed.fullmatch(name) for name in sent)
    assert len(set(sent)) == len(NAMES)
    assert [names.real(name) for name in sent] == NAMES
    assert [names_of(allowed, reversed(NAMES)).wire(name) for name in NAMES] == sent
    # What is accepted is not replaced, and each replacement depends on its own name only.
    assert all(name == real for name, real in zip(sent, NAMES, strict=True) if allowed.fullmatch(real))
    assert [names_of(allowed, [name]).wire(name) for name in NAMES] == sent


def test_a_tool_cannot_take_the_wire_name_of_another() -> None:
    taken = names_of(OPENAI_NAME, ["notes.write"]).wire("notes.write")
    names = names_of(OPENAI_NAME, ["notes.write", taken])
    assert names.wire(taken) == taken
    assert names.wire("notes.write") not in (taken, "notes.write")
    assert [names.real(names.wire(name)) for name in (taken, "notes.write")] == [taken, "notes.write"]


def test_the_conversation_does_not_change_the_names_of_the_tools() -> None:
    rival = names_of(OPENAI_NAME, ["notes.write"]).wire("notes.write")
    assert names_of(OPENAI_NAME, ["notes.write"], [rival, "a.b"]).wire("notes.write") == rival


TOOLS = [
    ToolDeclaration(name="my notes.write", description="Writes.", parameters={"type": "object"}),
    ToolDeclaration(name="read", description="Reads.", parameters={"type": "object"}),
]


def named(value: Any) -> list[str]:
    """Return every function name in a request."""
    if isinstance(value, list):
        return [name for part in value for name in named(part)]
    if not isinstance(value, dict):
        return []
    found = [value["name"]] if isinstance(value.get("name"), str) else []
    return found + [name for part in value.values() for name in named(part)]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("by_real_name", [False, True])
async def test_the_model_calls_by_the_wire_name_and_the_record_has_the_real_one(api: API, by_real_name: bool) -> None:
    allowed = GEMINI_NAME if api.name == "gemini" else OPENAI_NAME
    wire_name = WireNames(allowed, TOOLS).wire("my notes.write")
    called = "my notes.write" if by_real_name else wire_name
    calls = [Call(called, {"text": "a"}, id="c1", signature=SIGNATURE), Call("read", {}, id="c2")]
    async with serving(says(api.answer(calls=calls, finish="calls")), says(api.answer(text="Done."))) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="k"))
        hello = LLMMessage(role="user", content="write")
        first = await adapter.generate([hello], TOOLS)
        assert [call.name for call in first.function_calls or []] == ["my notes.write", "read"]
        turn = LLMMessage(role="assistant", function_calls=first.function_calls, provider_parts=first.provider_parts)
        results = [
            LLMMessage(role="function", function_response=FunctionResponse(name=call.name, response={"ok": True}, id=call.id))
            for call in first.function_calls or []
        ]
        await adapter.generate([hello, turn, *results], TOOLS)
        await adapter.aclose()
    for request in wire.requests:
        names = named(request.body)
        assert set(names) == {wire_name, "read"}
        assert all(allowed.fullmatch(name) for name in names)
