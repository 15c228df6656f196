"""The refusals of requests that are larger than the context, in the words of the providers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graph_agent.errors import LLMError
from graph_agent.llm.adapter_call import failed_response
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.context_overflow import read_overflow
from graph_agent.llm.openai_compatible import parse_response
from graph_agent.models.llm import LLMErrorCause, LLMMessage
from graph_agent.reply.causes import cause_of
from tests.llm.wire_apis import APIS, TOOL, OpenAIAPI
from tests.llm.wire_server import says, serving

SENTENCES: dict[str, tuple[int | None, int | None]] = {
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens (8500 in the messages, "
    "500 in the functions). Please reduce the length of the messages or functions.": (9000, 8192),
    "Your input exceeds the context window of this model. Please adjust your input and try again.": (None, None),
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.": (300000, 272000),
    "prompt is too long: 210000 tokens > 200000 maximum": (210000, 200000),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (1200000, 1048576),
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length": (40000, 32768),
    "too many tokens: total number of tokens in the prompt cannot exceed 4096 - received 5000.": (5000, 4096),
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens": (5000, 4096),
    "Input is too long for requested model.": (None, None),
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.": (537812, 131072),
    "The input (5,000 tokens) is longer than the model's context length (4,096 tokens).": (5000, 4096),
    "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)": (9000, 8192),
    "request (1516 tokens) exceeds the available context size (1024 tokens), try increasing it": (1516, 1024),
    "invalid params, context window exceeds limit (2013)": (None, None),
    "(n_keep: 5000>= n_ctx: 4096). Try to load the model with a larger context length, the prompt is too long": (5000, 4096),
}
OTHERS = [
    "unknown field",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
    "too many states for serving",
    "Request Entity Too Large",
    "string too long. Expected a string with maximum length 64, but got a string with length 90 instead",
    "temperature must be <= 2",
]


@pytest.mark.parametrize(("sentence", "tokens"), SENTENCES.items(), ids=lambda value: str(value)[:40])
def test_the_sizes_are_read_from_the_words_of_the_provider(sentence: str, tokens: tuple[int | None, int | None]) -> None:
    assert read_overflow({"message": sentence}) == tokens


@pytest.mark.parametrize("sentence", OTHERS)
def test_another_refusal_is_no_overflow(sentence: str) -> None:
    assert read_overflow({"message": sentence}) is None


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        ({"type": "exceed_context_size_error", "n_prompt_tokens": 1516, "n_ctx": 1024}, (1516, 1024)),
        ({"code": "context_length_exceeded", "message": None}, (None, None)),
        ("prompt is too long: 90 tokens > 80 maximum", (90, 80)),
        (["x"], None),
        (None, None),
    ],
)
def test_the_fields_of_an_error_count_as_well(error: Any, tokens: Any) -> None:
    assert read_overflow(error) == tokens


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_the_request_is_not_sent_a_second_time(api: Any, status: int) -> None:
    message = "request (1516 tokens) exceeds the available context size (1024 tokens), try increasing it"
    async with serving(says(api.error(status, message=message), status)) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x"))
        with pytest.raises(LLMError) as raised:
            await adapter.generate([LLMMessage(role="user", content="hello")], [TOOL], tool_choice="required")
        await adapter.aclose()
    assert len(wire.requests) == 1
    cause = cause_of(failed_response(raised.value))
    assert cause.code is LLMErrorCause.CONTEXT_EXCEEDED
    assert str(cause) == (
        "the request of 1,516 tokens does not fit the model's context of 1,024 tokens: "
        "give the model's server a larger context, grant fewer tools, or use another model"
    )


def test_a_proxy_may_report_it_with_the_status_200() -> None:
    (error,) = OpenAIAPI().error(400, message="prompt is too long: 210000 tokens > 200000 maximum")
    with pytest.raises(LLMError) as raised:
        parse_response(json.dumps(error), "m", [])
    assert raised.value.overflow == (210000, 200000)
