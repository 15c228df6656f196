"""The digests of model requests are those of their whole canonical JSON, although the JSON of each message is made once."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.canonical import digest
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMRequest
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.turn.recorder import RequestDigests

ASKS = LLMMessage("user", 'add "milk", \u00e4 \ud800')
CALLS = LLMMessage(
    "assistant", function_calls=[FunctionCall("add_task", {"z": [1, 2.5, None], "a": {"b": 2**70}})], provider_parts={"p": "x"}
)
ANSWERS = LLMMessage("function", function_response=FunctionResponse("add_task", {"success": True, "data": {"y": 1, "x": "\n"}}))


def written_out(request: LLMRequest) -> str:
    asked: list[Any] = [
        request.system_instruction,
        [tool.name for tool in request.tools],
        [message.to_json() for message in request.messages],
        request.temperature,
        request.max_tokens,
    ]
    return digest(asked if request.tool_choice == "auto" else [*asked, request.tool_choice])


@pytest.mark.parametrize("prompt", [None, "", "Be brief.\n\u2028"])
@pytest.mark.parametrize("tool_choice", ["auto", "required"])
def test_the_requests_of_a_turn_have_the_digests_of_their_json(prompt: str | None, tool_choice: Any) -> None:
    digests = RequestDigests()
    for messages in ([ASKS], [ASKS, CALLS, ANSWERS], [ASKS, CALLS, ANSWERS, CALLS, ANSWERS], [CALLS, ANSWERS], []):
        for tools in (TASK_TOOLS, ()):
            request = LLMRequest(
                system_instruction=prompt, messages=messages, tools=list(tools), temperature=0.1, tool_choice=tool_choice
            )
            assert digests.of(request) == written_out(request)


def test_a_message_that_is_not_kept_anywhere_else_is_never_taken_for_another() -> None:
    digests = RequestDigests()
    for number in range(1000):
        # Each message is free after its digest, so that the next one could get its address.
        request = LLMRequest(messages=[LLMMessage("user", f"{number}")], tools=[])
        assert digests.of(request) == written_out(request)
