"""Where the model of the agent service is, and how it answers."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from graph_agent.errors import ConfigurationError
from graph_agent.llm.config import configured, endpoint
from graph_agent.llm.families import DEFAULT_MODEL, plain_name, successor
from graph_agent.llm.openai_compatible import GEMINI_ENDPOINT, NO_KEY
from graph_agent.models.base import Frozen
from graph_agent.settings import Settings, read_settings

GEMINI_HOST = urlsplit(GEMINI_ENDPOINT).hostname


class AgentConfiguration(Frozen):
    """An endpoint that speaks OpenAI's chat completions, a key for it, and the limits of one answer.

    At Gemini's own endpoint `model_name` is any Gemini model that still answers; elsewhere it is whatever that server calls
    its model. `max_tokens` is the reply's budget, `timeout` the seconds of one request.
    """

    api_base_url: str = GEMINI_ENDPOINT
    api_key: str = Field(repr=False)
    model_name: str = DEFAULT_MODEL
    temperature: float = Field(default=1.0, ge=0.0, le=1.0)
    max_tokens: int = Field(default=1000, gt=0)
    timeout: int = Field(default=30, gt=0)

    @field_validator("api_base_url")
    @classmethod
    def _callable(cls, value: str) -> str:
        try:
            return endpoint(value)
        except ConfigurationError as exc:
            raise ValueError("api_base_url must be an http or https address") from exc

    @field_validator("api_key")
    @classmethod
    def _sendable(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("api_key must not be empty")
        try:
            return configured(value, DEFAULT_MODEL, None).api_key
        except ConfigurationError as exc:
            raise ValueError("api_key contains characters that no key has") from exc

    @model_validator(mode="after")
    def _answers_there(self) -> Self:
        if not self.model_name.strip():
            raise ValueError("model_name must not be empty")
        if urlsplit(self.api_base_url).hostname != GEMINI_HOST:
            return self
        if (instead := successor(self.model_name)) is not None:
            raise ValueError(f"the model '{self.model_name}' is retired: use {instead}")
        if not plain_name(self.model_name).startswith("gemini-"):
            raise ValueError("model_name must be a Gemini model (gemini-...) at Gemini's own address")
        return self


def get_default_config() -> AgentConfiguration:
    """The configuration that the environment asks for. Raises `ConfigurationError` where there is no key.

    GEMINI_API_KEY and GEMINI_MODEL, at Gemini's endpoint or behind GEMINI_BASE_URL; with OPENAI_BASE_URL that server instead,
    with OPENAI_API_KEY and OPENAI_MODEL. A key is only ever sent to the host it was made for.
    """
    given = {name: value for name, value in _access(read_settings()).items() if value is not None}
    try:
        return AgentConfiguration.model_validate(given)
    except ValidationError as exc:
        slip = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ConfigurationError(slip["msg"].removeprefix("Value error, ")) from None


def _access(settings: Settings) -> dict[str, str | None]:
    if settings.openai_base_url is not None:
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key is not None else ""
        return {"api_base_url": settings.openai_base_url, "api_key": key.strip() or NO_KEY, "model_name": settings.openai_model}
    if settings.gemini_api_key is None:
        raise ConfigurationError("the agent service needs GEMINI_API_KEY")
    base = settings.gemini_base_url
    return {
        "api_base_url": f"{base.rstrip('/')}{urlsplit(GEMINI_ENDPOINT).path}" if base is not None else None,
        "api_key": settings.gemini_api_key.get_secret_value(),
        "model_name": settings.gemini_model,
    }
