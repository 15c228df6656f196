"""Helpers for tests of the agent service: replies of a model over HTTP, and services without a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from graph_agent.agent_service import AgentConfiguration, AgentResponse, AgentServices
from graph_agent.agent_service.run import AgentRequest, converse
from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.record.audit_writer import MemoryAuditWriter, MemoryConfirmations
from graph_agent.turn.setup import EnginePorts
from tests.llm.wire_server import Reply, WireServer, Writer, says
from tests.scripted_turns import SECRET, TableServer

USER = "550e8400-e29b-41d4-a716-446655440000"
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def answers(content: str, finish_reason: str = "stop") -> Reply:
    """Return a reply with text."""
    message = {"role": "assistant", "content": content}
    return says({"choices": [{"index": 0, "finish_reason": finish_reason, "message": message}], "usage": USAGE})


def wants(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """Return a reply with calls, whose ids count from `call_a0`."""
    made = [
        {"id": f"call_a{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return says({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}], "usage": USAGE})


def after_results(server: Callable[[], WireServer], reply: Callable[[list[Any]], Reply]) -> Reply:
    """Return the reply that `reply` builds from the tool results in the last request."""

    async def write(writer: Writer) -> bool:
        messages = server().requests[-1].body["messages"]
        return await reply([json.loads(message["content"]) for message in messages if message["role"] == "tool"])(writer)

    return write


def at(url: str, **more: Any) -> AgentConfiguration:
    return AgentConfiguration(api_base_url=url, api_key="key", model_name="test-model", **more)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def kept(response: AgentResponse) -> list[dict[str, Any]]:
    """Return the conversation as a caller reads it back from its own storage, as JSON."""
    stored: list[dict[str, Any]] = json.loads(json.dumps(response.messages))
    return stored


def agent_services(server: Any = None, **more: Any) -> AgentServices:
    given: dict[str, Any] = {
        "constitution": Constitution.load().text,
        "tools": server or TableServer(),
        "ports": EnginePorts(
            more.pop("audit", None) or MemoryAuditWriter(),
            more.pop("clock", None) or ManualClock(),
            more.pop("ids", None) or SequentialIds(),
            more.pop("signer", None) or Signer(SECRET),
            more.pop("confirmations", None) or MemoryConfirmations(),
        ),
    }
    return AgentServices(**{**given, **more})


async def talk(place: AgentServices, script: list[Any], history: list[Any] | str, **more: Any) -> AgentResponse:
    """Run the agent service with a scripted model. A text is a conversation of one message."""
    messages = [said(history)] if isinstance(history, str) else history
    with ScriptedAdapter(script) as adapter:
        request = AgentRequest(messages, more.pop("user_id", USER), at("http://127.0.0.1:9/"), **more)
        return await converse(place, adapter, request)
