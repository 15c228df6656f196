"""The endpoint of the agent service, its model, and the limits of one answer and of one turn."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator

from graph_agent.errors import ConfigurationError
from graph_agent.llm.config import ApiKey, check_base_url
from graph_agent.llm.families import DEFAULT_MODEL
from graph_agent.llm.openai_compatible import GEMINI_ENDPOINT, NO_KEY
from graph_agent.models.base import Frozen, NotBlank, first_violation
from graph_agent.models.config import Rounds
from graph_agent.settings import Settings, read_settings

MAX_TURN_SECONDS = 120


class AgentConfiguration(Frozen):
    """An endpoint for OpenAI chat completions, its key, and the limits of one answer.

    Any `model_name` is accepted: only the endpoint knows which models it serves. `max_tokens` limits the reply, `timeout` one
    request, in seconds.
    """

    api_base_url: str = GEMINI_ENDPOINT
    api_key: ApiKey
    model_name: NotBlank = DEFAULT_MODEL
    temperature: float = Field(default=1.0, ge=0.0, le=1.0)
    max_tokens: int = Field(default=1000, gt=0)
    timeout: int = Field(default=30, gt=0)

    @field_validator("api_base_url")
    @classmethod
    def _check_api_base_url(cls, value: str) -> str:
        try:
            return check_base_url(value)
        except ConfigurationError as exc:
            raise ValueError("api_base_url must be an http or https address") from exc


class AgentLoopConfig(Frozen):
    """The limits of one turn. Only reads are retried: a mutation is never sent twice, the ledger settles it."""

    max_iterations: Rounds = 15
    iteration_timeout: int = Field(default=30, gt=0)
    """The time limit of one model call, or of one tool call, in seconds."""
    enable_retry: bool = False
    retry_attempts: int = Field(default=1, ge=0)
    """The number of retries of a failed read; ignored unless `enable_retry` is set."""
    turn_timeout: float | None = Field(default=None, gt=0, le=600)
    """The time limit of the whole turn in seconds. None means `max_iterations` times `iteration_timeout`, at most 120."""

    @property
    def turn_seconds(self) -> float:
        return self.turn_timeout or min(self.max_iterations * self.iteration_timeout, MAX_TURN_SECONDS)

    @property
    def read_retries(self) -> int:
        return self.retry_attempts if self.enable_retry else 0


def get_default_config() -> AgentConfiguration:
    """Return the configuration from the environment. Raises `ConfigurationError` if there is no key.

    GEMINI_API_KEY and GEMINI_MODEL configure Gemini's endpoint, or the one of GEMINI_BASE_URL. If OPENAI_BASE_URL is set, that
    server is used instead, with OPENAI_API_KEY and OPENAI_MODEL. A key is only sent to the host that it belongs to.
    """
    given = {name: value for name, value in _endpoint_fields(read_settings()).items() if value is not None}
    try:
        return AgentConfiguration.model_validate(given)
    except ValidationError as exc:
        raise ConfigurationError(first_violation(exc)) from None


def _endpoint_fields(settings: Settings) -> dict[str, str | None]:
    """Return the endpoint, key and model that the settings give; None for a value that is left to the default."""
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
