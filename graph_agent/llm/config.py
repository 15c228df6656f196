"""The configuration of an adapter."""

from __future__ import annotations

import math
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError

from graph_agent.errors import ConfigurationError
from graph_agent.llm.families import DEFAULT_MODEL, Effort
from graph_agent.models.base import Frozen, NotBlank, first_violation
from graph_agent.models.llm import DEFAULT_TEMPERATURE, MAX_RESPONSE_TOKENS


def _check_key(value: str) -> str:
    key = value.strip()
    # A key is sent in an HTTP header, which such characters would break.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("api_key contains characters that no key has")
    return key


ApiKey = Annotated[NotBlank, AfterValidator(_check_key), Field(repr=False)]


class LLMConfig(Frozen, kw_only=False):
    """A key, a model and the limits of one call.

    `timeout_seconds` limits one attempt; if it is not set, an attempt of a turn has the time that is left of the turn. A turn's
    deadline can make it shorter. `max_retries` is the number of further attempts after a retryable failure. `max_tokens` is the
    budget of the reply: what a model needs for thinking is added on the wire.
    """

    api_key: ApiKey
    model: NotBlank = DEFAULT_MODEL
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int = Field(default=MAX_RESPONSE_TOKENS, gt=0)
    timeout_seconds: float = Field(default=30, gt=0)
    max_retries: int = Field(default=1, ge=0, le=5)
    thinking: Effort = "low"

    @property
    def turn_limit(self) -> float:
        """The seconds that one attempt of a turn may take, if the turn's deadline is no shorter limit."""
        return self.timeout_seconds if "timeout_seconds" in self.model_fields_set else math.inf


def make_config(api_key: str, model: str, config: LLMConfig | None) -> LLMConfig:
    """Return `config`, or the default one, with this key and model. Raises `ConfigurationError`."""
    try:
        return LLMConfig.model_validate({**(_set_fields(config) if config else {}), "api_key": api_key, "model": model.strip()})
    except ValidationError as exc:
        raise ConfigurationError(f"the model's configuration is not valid: {first_violation(exc)}") from None


def _set_fields(config: LLMConfig) -> dict[str, Any]:
    return {name: value for name, value in config if name in config.model_fields_set}


def check_base_url(url: str, *appended: str) -> str:
    """Return `url` without the path that is `appended` to it, in parts, and that is often copied along.

    Raises `ConfigurationError` if it is not an address that can be called.
    """
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        usable = usable and not parts.query and not parts.fragment  # the SDKs append a path
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError("the model's base URL must be an http or https address without a query")
    root = url.strip()
    for part in reversed(appended):
        root = root.rstrip("/").removesuffix(part).rstrip("/")
    return root
