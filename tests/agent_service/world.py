"""What tests of the agent service share: answers of a model on the wire, and surroundings that need no database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from graph_agent.agent_service import AgentConfiguration, AgentResponse, Surroundings
from graph_agent.agent_service.run import converse
from graph_agent.turn.memory_writer import MemoryAuditWriter, MemoryConfirmations
from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.constitution import Constitution
from tests.llm.wire_server import Reply, WireServer, Writer, says
from tests.turns import SECRET, TableServer

USER = "550e8400-e29b-41d4-a716-446655440000"
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def answers(content: str, finish_reason: str = "stop") -> Reply:
    """A model's answer in words."""
    message = {"role": "assistant", "content": content}
    return says({"choices": [{"index": 0, "finish_reason": finish_reason, "message": message}], "usage": USAGE})


def wants(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """A model's calls, with ids that count from `call_a0`."""
    made = [
        {"id": f"call_a{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return says({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}], "usage": USAGE})


def after_results(server: Callable[[], WireServer], reply: Callable[[list[Any]], Reply]) -> Reply:
    """`reply` to the tool results in the last request."""

    async def write(writer: Writer) -> bool:
        messages = server().requests[-1].body["messages"]
        return await reply([json.loads(message["content"]) for message in messages if message["role"] == "tool"])(writer)

    return write


def at(url: str, **more: Any) -> AgentConfiguration:
    return AgentConfiguration(api_base_url=url, api_key="key", model_name="test-model", **more)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def kept(response: AgentResponse) -> list[dict[str, Any]]:
    """The conversation as a caller gets it back from where it was stored."""
    stored: list[dict[str, Any]] = json.loads(json.dumps(response.messages))
    return stored


def surroundings(server: Any = None, **more: Any) -> Surroundings:
    given: dict[str, Any] = {
        "constitution": Constitution.load().text,
        "tools": server or TableServer(),
        "audit": MemoryAuditWriter(),
        "signer": Signer(SECRET),
        "confirmations": MemoryConfirmations(),
        "clock": ManualClock(),
        "ids": SequentialIds(),
    }
    return Surroundings(**{**given, **more})


async def talk(place: Surroundings, script: list[Any], history: list[Any] | str, **more: Any) -> AgentResponse:
    """`run_agent` on a script; a text is a conversation of one message."""
    messages = [said(history)] if isinstance(history, str) else history
    with ScriptedAdapter(script) as adapter:
        return await converse(place, adapter, messages, more.pop("user_id", USER), at("http://127.0.0.1:9/"), **more)
