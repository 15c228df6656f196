"""Every adapter against everything that may come over the wire."""

from __future__ import annotations

import pytest

from graph_agent.errors import InvalidResponseError, LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.config import LLMConfig
from graph_agent.models.llm import LLMMessage, LLMResponse
from graph_agent.ports import LLMAdapter
from tests.llm.wire_scenarios import Scenario, outcome_of
from tests.llm.wire_server import serving
from tests.llm.wire_speakers import SPEAKERS, TOOL, Speaker
from tests.llm.wire_table import SCENARIOS

CASES = [
    pytest.param(speaker, scenario, id=f"{speaker.name}: {scenario.wire}")
    for speaker in SPEAKERS
    for scenario in SCENARIOS
    if scenario.only in (None, speaker.name)
]
KINDS = {"RATE_LIMITED": RateLimitError, "TIMEOUT": LLMTimeoutError, "INVALID_RESPONSE": InvalidResponseError}
SECRETS = ("secret-key", "10.0.0.7", "127.0.0.1", "Traceback", "httpx", "openai.", "genai")


@pytest.mark.parametrize(("speaker", "scenario"), CASES)
async def test_an_adapter_makes_of_the_wire_what_the_table_says(speaker: Speaker, scenario: Scenario) -> None:
    async with serving(*scenario.replies(speaker)) as wire:
        adapter = speaker.adapter(wire.url, LLMConfig(api_key="x", timeout_seconds=scenario.limit))
        result = await answer_or_error(adapter)
        await adapter.aclose()
    assert outcome_of(result) == scenario.becomes
    assert len(wire.requests) == scenario.attempts
    if isinstance(result, LLMError):
        assert type(result) is KINDS.get(result.code, LLMError)
        assert not any(secret in f"{result} {result.message}" for secret in SECRETS)
    else:
        assert result.provider_parts is not None


async def answer_or_error(adapter: LLMAdapter) -> LLMResponse | LLMError:
    try:
        return await adapter.generate([LLMMessage(role="user", content="hello")], [TOOL])
    except LLMError as error:
        return error


def test_every_protocol_is_asked_a_hundred_things() -> None:
    assert all(sum(case.values[0] is speaker for case in CASES) >= 100 for speaker in SPEAKERS)
