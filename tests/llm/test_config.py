from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.errors import ConfigurationError
from graph_agent.llm.config import LLMConfig, check_base_url, make_config


def test_the_defaults_are_those_of_the_adapter_contract() -> None:
    config = LLMConfig(api_key="k")
    assert config.model_dump() == {
        "api_key": "k",
        "model": "gemini-3.8-flash",
        "temperature": 0.0,
        "max_tokens": 1024,
        "timeout_seconds": 30,
        "max_retries": 1,
        "thinking": "low",
    }
    assert "k" not in repr(LLMConfig(api_key="k")).replace("thinking", "").replace("max_tokens", "").replace("LLMConfig", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": " "},
        {"model": ""},
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"max_tokens": 0},
        {"timeout_seconds": 0},
        {"max_retries": -1},
        {"thinking": "minimal"},
        {"unknown": 1},
    ],
)
def test_an_invalid_value_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMConfig.model_validate({"api_key": "k", **wrong})


@pytest.mark.parametrize(("key", "model"), [("", "m"), (" ", "m"), ("k k", "m"), ("k\nk", "m"), ("ключ", "m"), ("k", " ")])
def test_an_invalid_key_or_model_name_raises_one_clear_sentence(key: str, model: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_config(key, model, None)
    assert str(refused.value).startswith("the model's ")
    assert key.strip() == "" or key not in str(refused.value)


def test_the_arguments_override_the_configuration() -> None:
    config = make_config(" k\n", "m", LLMConfig(api_key="other", model="other", timeout_seconds=3))
    assert (config.api_key, config.model, config.timeout_seconds) == ("k", "m", 3)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:11434",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://host/?key=x",
        "http://host/#v1",
    ],
)
def test_an_address_that_cannot_be_called_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http or https"):
        check_base_url(url)


def test_an_address_may_have_a_path() -> None:
    assert check_base_url(" http://127.0.0.1:8080/v1 ") == "http://127.0.0.1:8080/v1"
