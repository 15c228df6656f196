"""Every adapter against every scenario of the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from graph_agent.errors import InvalidResponseError, LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.config import LLMConfig
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolChoice
from graph_agent.ports import LLMAdapter
from tests.llm.wire_apis import API, APIS, TOOL
from tests.llm.wire_scenarios import Scenario, outcome_of
from tests.llm.wire_server import serving
from tests.llm.wire_table import SCENARIOS


def cases(api: API) -> Iterator[Any]:
    """Return every scenario with a required call, as in a turn; without one, those that are sent again for different reasons.

    Without a requirement the same code reads the reply. Only the requests differ, which depend on few fields of a scenario.
    """
    alike = set()
    for scenario in SCENARIOS:
        if scenario.only not in (None, api.name):
            continue
        yield pytest.param(api, scenario, "required", id=f"{api.name}, required: {scenario.wire}")
        reasons = scenario.unusable, scenario.attempts, scenario.becomes.finish
        if scenario.requirements is None and reasons not in alike:
            alike.add(reasons)
            yield pytest.param(api, scenario, "auto", id=f"{api.name}, auto: {scenario.wire}")


KINDS = {"RATE_LIMITED": RateLimitError, "TIMEOUT": LLMTimeoutError, "INVALID_RESPONSE": InvalidResponseError}
SECRETS = ("secret-key", "10.0.0.7", "127.0.0.1", "Traceback", "httpx", "openai.", "genai")


@pytest.mark.parametrize(("api", "scenario", "tool_choice"), [case for api in APIS for case in cases(api)])
async def test_an_adapter_returns_what_the_table_says(api: API, scenario: Scenario, tool_choice: ToolChoice) -> None:
    async with serving(*scenario.replies(api)) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x", timeout_seconds=scenario.limit))
        result = await answer_or_error(adapter, tool_choice)
        await adapter.aclose()
    assert outcome_of(result) == scenario.becomes
    assert tuple(api.requires_call(request.body) for request in wire.requests) == scenario.requests(tool_choice)
    if isinstance(result, LLMError):
        assert type(result) is KINDS.get(result.code, LLMError)
        assert not any(secret in f"{result} {result.message}" for secret in SECRETS)
    else:
        assert result.provider_parts is not None


async def answer_or_error(adapter: LLMAdapter, tool_choice: ToolChoice) -> LLMResponse | LLMError:
    try:
        return await adapter.generate([LLMMessage(role="user", content="hello")], [TOOL], tool_choice=tool_choice)
    except LLMError as error:
        return error
