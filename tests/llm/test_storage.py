"""Requests ask a provider that may store prompts not to do so, unless the operator allows it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from graph_agent.bootstrap.adapters import choose_adapter
from graph_agent.clock import ManualClock
from graph_agent.errors import LLMError
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.provider_adapter import ProviderAdapter
from graph_agent.models.llm import LLMMessage
from graph_agent.settings import read_settings
from tests.llm.wire_apis import APIS
from tests.llm.wire_server import WireServer, says, serving

HELLO = LLMMessage(role="user", content="hello")
GEMINI, OPENAI = (says(api.answer(text="Hi.")) for api in APIS[:2])
GOOGLE = "generativelanguage.googleapis.com"
UNKNOWN_FIELD = says(
    [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "store": Cannot find field.'}}], 400
)


async def asked(adapter: ProviderAdapter, times: int = 1) -> None:
    for _ in range(times):
        await adapter.generate([HELLO], [])
    await adapter.aclose()


def stores(wire: WireServer) -> list[Any]:
    return [request.body.get("store", "not sent") for request in wire.requests]


async def test_gemini_is_asked_not_to_store_unless_that_is_allowed() -> None:
    async with serving(GEMINI) as wire:
        await asked(GeminiAdapter("k", base_url=wire.url))
        await asked(GeminiAdapter("k", base_url=wire.url, allow_storage=True))
    assert stores(wire) == [False, "not sent"]


@pytest.mark.parametrize(
    ("host", "sent"),
    [
        (f"{GOOGLE}/v1beta/openai", False),
        ("api.openai.com/v1", False),
        ("openrouter.example/v1", "not sent"),
        (f"{GOOGLE}.example/v1", "not sent"),
    ],
)
async def test_only_hosts_that_store_are_asked_not_to(host: str, sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OPENAI) as wire:
        monkeypatch.setenv("HTTP_PROXY", wire.url)
        await asked(OpenAICompatibleAdapter("k", "m", base_url=f"http://{host}"))
        await asked(OpenAICompatibleAdapter("k", "m", base_url=f"http://{host}", allow_storage=True))
    assert [request.path.startswith(f"http://{host}") for request in wire.requests] == [True, True]
    assert stores(wire) == [sent, "not sent"]


async def test_a_server_that_does_not_know_the_field_answers_without_it_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(UNKNOWN_FIELD, OPENAI) as wire:
        monkeypatch.setenv("HTTP_PROXY", wire.url)
        with caplog.at_level(logging.WARNING):
            await asked(OpenAICompatibleAdapter("k", "m", base_url=f"http://{GOOGLE}/v1beta/openai"), times=2)
    assert stores(wire) == [False, "not sent", "not sent"]
    text = "the server of m does not know `store`: its settings say whether it stores prompts"
    assert [record.getMessage() for record in caplog.records if "store" in record.getMessage()] == [text]


async def test_another_refusal_is_no_reason_to_send_the_request_without_the_field() -> None:
    async with serving(says({"error": {"code": 400, "message": "The model cannot store so much."}}, 400)) as wire:
        adapter = GeminiAdapter("k", base_url=wire.url)
        with pytest.raises(LLMError):
            await asked(adapter)
        await adapter.aclose()
    assert stores(wire) == [False]


@pytest.mark.parametrize(("value", "sent"), [("", False), ("false", False), ("true", "not sent")])
async def test_the_setting_allows_it(value: str, sent: Any) -> None:
    async with serving(GEMINI) as wire:
        given = {"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": wire.url, "GRAPH_AGENT_ALLOW_MODEL_STORAGE": value}
        adapter, _ = choose_adapter(read_settings(given))
        assert isinstance(adapter, ProviderAdapter)
        await asked(adapter)
    assert stores(wire) == [sent]


@pytest.mark.parametrize(("day", "takes_temperature"), [(30, True), (1, False)])
async def test_the_parameters_are_those_of_the_model_that_answers_on_that_day(day: int, takes_temperature: bool) -> None:
    clock = ManualClock(datetime(2026, 11 if day == 30 else 12, day, 12, tzinfo=UTC))
    async with serving(GEMINI) as wire:
        await asked(GeminiAdapter("k", "gemini-2.5-pro", base_url=wire.url, clock=clock))
    assert ("temperature" in wire.requests[0].body["generationConfig"]) is takes_temperature
