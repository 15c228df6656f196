from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.agent_service import AgentConfiguration, AgentLoopConfig, get_default_config
from graph_agent.errors import ConfigurationError

GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai/"


def test_the_defaults_are_the_documented_ones_and_a_model_that_answers() -> None:
    assert AgentConfiguration(api_key="k").to_json() == {
        "api_base_url": GOOGLE,
        "api_key": "k",
        "model_name": "gemini-3.8-flash",
        "temperature": 1.0,
        "max_tokens": 1000,
        "timeout": 30,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"max_tokens": 1},
        {"timeout": 1},
        {"model_name": "gemini-3.5-flash"},
        {"model_name": "gemini-2.5-flash"},
        {"model_name": "gemini-2.0-flash"},
        {"model_name": "gemma-4"},
        {"model_name": "models/gemini-3.8-flash"},
        {"api_base_url": "http://127.0.0.1:11434/v1", "model_name": "llama3.3"},
        {"api_base_url": "https://models.example.org/v1", "model_name": "gemini-2.0-flash"},
    ],
)
def test_what_can_work_is_taken(given: dict[str, Any]) -> None:
    assert {name: getattr(AgentConfiguration(api_key="k", **given), name) for name in given} == given


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"api_key": ""}, "api_key must not be empty"),
        ({"api_key": "  "}, "api_key must not be empty"),
        ({"api_key": None}, "valid string"),
        ({"api_key": "ключ"}, "api_key contains characters that no key has"),
        ({"temperature": -0.1}, "greater than or equal to 0"),
        ({"temperature": 1.1}, "less than or equal to 1"),
        ({"temperature": float("nan")}, "finite"),
        ({"max_tokens": 0}, "greater than 0"),
        ({"max_tokens": 1.5}, "valid integer"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": -30}, "greater than 0"),
        ({"api_base_url": "ftp://example.org/"}, "api_base_url must be an http or https address"),
        ({"api_base_url": "generativelanguage"}, "api_base_url must be an http or https address"),
        ({"model_name": " "}, "model_name must not be empty"),
        ({"api_base_url": "http://127.0.0.1/v1", "model_name": ""}, "model_name must not be empty"),
        ({"max_token": 5}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        AgentConfiguration(**{"api_key": "k", **given})


def test_a_key_is_required() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        AgentConfiguration()  # type: ignore[call-arg]  # what is tested


def test_the_key_is_not_shown() -> None:
    assert "s3cret" not in repr(AgentConfiguration(api_key="s3cret"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (GOOGLE, "g-key", "gemini-3.8-flash")),
        ({"GEMINI_MODEL": "gemini-3.5-flash"}, (GOOGLE, "g-key", "gemini-3.5-flash")),
        ({"GEMINI_MODEL": "gemini-2.0-flash"}, (GOOGLE, "g-key", "gemini-2.0-flash")),
        ({"GEMINI_BASE_URL": "http://proxy/g/"}, ("http://proxy/g/v1beta/openai/", "g-key", "gemini-3.8-flash")),
        ({"OPENAI_API_KEY": "o-key"}, (GOOGLE, "g-key", "gemini-3.8-flash")),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1", "OPENAI_MODEL": "qwen3"},
            ("http://127.0.0.1:8000/v1", "none", "qwen3"),
        ),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1", "OPENAI_MODEL": "qwen3", "OPENAI_API_KEY": "o-key"},
            ("http://127.0.0.1:8000/v1", "o-key", "qwen3"),
        ),
    ],
)
def test_the_default_configuration_is_the_environments(
    environment: dict[str, str], expected: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "g-key")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config = get_default_config()
    assert (config.api_base_url, config.api_key, config.model_name) == expected


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "the agent service needs GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": ""}, "the agent service needs GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": " "}, "api_key must not be empty"),
    ],
)
def test_an_environment_that_cannot_work_is_refused_in_one_sentence(
    environment: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as refused:
        get_default_config()
    assert str(refused.value) == sentence


def test_the_loop_has_the_documented_defaults() -> None:
    assert AgentLoopConfig().to_json() == {
        "max_iterations": 15,
        "iteration_timeout": 30,
        "enable_retry": False,
        "retry_attempts": 1,
        "turn_timeout": None,
    }


@pytest.mark.parametrize(
    "given", [{"max_iterations": 1}, {"max_iterations": 50}, {"iteration_timeout": 1}, {"retry_attempts": 0}]
)
def test_the_edges_of_a_loop_are_taken(given: dict[str, Any]) -> None:
    assert {name: getattr(AgentLoopConfig(**given), name) for name in given} == given


@pytest.mark.parametrize(
    "given",
    [
        {"max_iterations": 0},
        {"max_iterations": 51},
        {"iteration_timeout": 0},
        {"iteration_timeout": -1},
        {"retry_attempts": -1},
        {"turn_timeout": 0},
        {"turn_timeout": 601},
    ],
)
def test_a_loop_without_bounds_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentLoopConfig(**given)


@pytest.mark.parametrize(
    ("loop", "seconds"),
    [
        (AgentLoopConfig(), 120),
        (AgentLoopConfig(max_iterations=2), 60),
        (AgentLoopConfig(turn_timeout=300), 300),
        (AgentLoopConfig(max_iterations=2, turn_timeout=5), 5),
    ],
)
def test_a_turn_lasts_as_long_as_its_iterations_but_two_minutes_at_most(loop: AgentLoopConfig, seconds: float) -> None:
    assert loop.turn_seconds == seconds


@pytest.mark.parametrize(
    ("loop", "retries"),
    [
        (AgentLoopConfig(retry_attempts=3), 0),
        (AgentLoopConfig(enable_retry=True), 1),
        (AgentLoopConfig(enable_retry=True, retry_attempts=3), 3),
    ],
)
def test_attempts_count_only_where_retries_are_enabled(loop: AgentLoopConfig, retries: int) -> None:
    assert loop.read_retries == retries
