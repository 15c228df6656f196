"""Any JSON that a provider may send becomes a response that can be stored and sent back, or one of our errors."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_agent.errors import LLMError
from graph_agent.llm import gemini, openai_compatible
from graph_agent.llm.families import NEWEST
from graph_agent.models.llm import FunctionResponse, LLMMessage, LLMResponse
from tests.examples import examples
from tests.llm.wire_apis import API, APIS, SIGNATURE, TOOL, Call

HELLO = LLMMessage(role="user", content="hello")
WORDS = [
    "STOP",
    "stop",
    "MAX_TOKENS",
    "length",
    "SAFETY",
    "content_filter",
    "measure",
    "default_api.",
    "",
    " ",
    "\0",
    "\ud800",
    "{}",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "args", "text", "id"]), inner, max_size=3)
    ),
    max_leaves=6,
)
READERS = {"gemini": gemini.parse_response, "openai": openai_compatible.parse_response}


def all_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(path_inside for key, item in inner for path_inside in all_paths(item, (*path, key)))]


def replaced_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = replaced_at(value[path[0]], path[1:], new)
    return value


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_response_with_any_value_anywhere_is_a_usable_response_or_an_error(api: API, data: st.DataObject) -> None:
    body = api.answer(
        text="On it.",
        calls=[Call(id="a", args={"count": 3.0, "rows": [{"n": 1}]}, signature=SIGNATURE), Call(name="list")],
        finish="calls",
        usage=api.counted(1, 2, 3),
    )
    for _ in range(data.draw(st.integers(1, 2))):
        body = replaced_at(body, data.draw(st.sampled_from(all_paths(body))), data.draw(VALUES))
    try:
        answer = READERS[api.name](json.dumps(body), "m", [TOOL])
    except LLMError:
        return
    assert answer.content or answer.function_calls or answer.finish_reason == "max_tokens"
    assert LLMResponse.model_validate_json(answer.model_dump_json()) == answer
    assert json.dumps(answer.to_json()).encode()
    if answer.content or answer.function_calls:
        check_that_it_can_be_sent_back(answer)


def check_that_it_can_be_sent_back(answer: LLMResponse) -> None:
    """Assert that the next request can be built with this answer and one result for each call."""
    message = LLMMessage(
        role="assistant", content=answer.content, function_calls=answer.function_calls, provider_parts=answer.provider_parts
    )
    results = [
        LLMMessage(role="function", function_response=FunctionResponse(name=call.name, response={}, id=call.id))
        for call in answer.function_calls or []
    ]
    contents = gemini.build_contents([HELLO, message, *results], NEWEST)
    given_results = [part for content in contents for part in content["parts"] if "functionResponse" in part]
    assert len(given_results) == len(results)
    sent = openai_compatible.build_messages([HELLO, message, *results], "m", None)
    assert sum(one["role"] == "tool" for one in sent) == len(results)
    written = [call["function"]["arguments"] for one in sent for call in one.get("tool_calls", ())]
    assert all(json.loads(arguments) is None or isinstance(json.loads(arguments), dict) for arguments in written)
