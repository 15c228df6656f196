"""The choice of the model: the explicit one, else GRAPH_AGENT_MODEL, else Gemini if it has a key, else the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import SecretStr

from graph_agent.errors import ConfigurationError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.families import DEFAULT_MODEL, successor
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.gemini import check as check_gemini
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.openai_compatible import check as check_openai
from graph_agent.llm.provider_errors import missing_model_message
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.llm.tool_choice import check_required_calls
from graph_agent.ports import LLMAdapter
from graph_agent.settings import Settings

OPENAI_ENDPOINT = "https://api.openai.com/v1"

CHECK_SECONDS = 10.0
"""The time limit of the request by which `doctor` learns whether a server honors required calls."""

CHOICES = "rules, gemini, openai or scripted:FILE"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """`kind` is a key of the table below, `script` the file of a scripted model, `reason` a few words for the user."""

    kind: str
    reason: str
    script: str | None = None


def choose_model(settings: Settings, explicit: str | None = None) -> ModelChoice:
    """Choose without constructing an adapter. Raises `ConfigurationError` for a choice that does not exist."""
    if explicit is not None:
        return _read(explicit, "chosen on the command line")
    if settings.model is not None:
        return _read(settings.model, "chosen by GRAPH_AGENT_MODEL")
    if settings.gemini_api_key is not None:
        return ModelChoice("gemini", "GEMINI_API_KEY is set")
    return ModelChoice("rules", "no GEMINI_API_KEY is set")


def build_adapter(settings: Settings, choice: ModelChoice) -> LLMAdapter:
    """Construct the adapter of `choice`. Raises `ConfigurationError` if its key, model or file is missing."""
    return _BUILDERS[choice.kind](settings, choice)


def choose_adapter(settings: Settings, explicit: str | None = None) -> tuple[LLMAdapter, str]:
    """Return the adapter, and one line that says which it is, why it was chosen, and whether its model is retired."""
    choice = choose_model(settings, explicit)
    adapter = build_adapter(settings, choice)
    name = choice.kind if adapter.model == choice.kind else f"{choice.kind} ({adapter.model})"
    retired = f"; {missing_model_message(adapter.model)}" if successor(adapter.model) else ""
    return adapter, f"{name}: {choice.reason}{retired}"


def model_name(settings: Settings, choice: ModelChoice) -> str | None:
    """Return the name of the provider's model, or None. Raises `ConfigurationError` like `build_adapter`."""
    match choice.kind:
        case "gemini":
            return _gemini_access(settings)[1]
        case "openai":
            return _openai_access(settings).model
        case _:
            return None


async def check_endpoint(settings: Settings, choice: ModelChoice) -> str | None:
    """Return None if the model's endpoint answers, else one sentence that says what is wrong. Takes at most a second."""
    match choice.kind:
        case "gemini":
            key, model = _gemini_access(settings)
            return await check_gemini(key, model, base_url=settings.gemini_base_url)
        case "openai":
            access = _openai_access(settings)
            return await check_openai(access.key, base_url=access.base_url)
        case _:
            build_adapter(settings, choice)
            return None


async def check_tool_choice(settings: Settings, choice: ModelChoice) -> str | None:
    """Return in a few words whether the model's server honors required calls; None for a model without a server.

    This is one real request with the SDK, so it takes seconds and costs some tokens.
    """
    limits = LLMConfig(api_key="-", timeout_seconds=CHECK_SECONDS, max_retries=0)
    adapter: GeminiAdapter | OpenAICompatibleAdapter
    match choice.kind:
        case "gemini":
            key, model = _gemini_access(settings)
            adapter = GeminiAdapter(key, model, base_url=settings.gemini_base_url, config=limits)
        case "openai":
            access = _openai_access(settings)
            adapter = OpenAICompatibleAdapter(access.key, access.model, base_url=access.base_url, config=limits)
        case _:
            return None
    try:
        return await check_required_calls(adapter)
    finally:
        await adapter.aclose()


def _read(text: str, reason: str) -> ModelChoice:
    kind, colon, script = text.strip().partition(":")
    if kind not in _BUILDERS or bool(colon) != (kind == "scripted") or (colon and not script):
        raise ConfigurationError(f"there is no model '{text}': choose {CHOICES}")
    return ModelChoice(kind, reason, script or None)


def _rules(_settings: Settings, _choice: ModelChoice) -> LLMAdapter:
    # Imported here, because loading the grammar takes a third of a second and another model may be chosen.
    from graph_agent.rules_model.adapter import RuleBasedAdapter

    return RuleBasedAdapter()


def _gemini(settings: Settings, _choice: ModelChoice) -> LLMAdapter:
    key, model = _gemini_access(settings)
    return GeminiAdapter(key, model, base_url=settings.gemini_base_url)


def _openai(settings: Settings, _choice: ModelChoice) -> LLMAdapter:
    access = _openai_access(settings)
    return OpenAICompatibleAdapter(access.key, access.model, base_url=access.base_url)


def _scripted(_settings: Settings, choice: ModelChoice) -> LLMAdapter:
    assert choice.script is not None
    return ScriptedAdapter.from_file(choice.script)


_BUILDERS: Mapping[str, Callable[[Settings, ModelChoice], LLMAdapter]] = MappingProxyType(
    {"rules": _rules, "gemini": _gemini, "openai": _openai, "scripted": _scripted}
)


def _gemini_access(settings: Settings) -> tuple[str, str]:
    key = _text(settings.gemini_api_key)
    if not key:
        raise ConfigurationError("the model 'gemini' needs GEMINI_API_KEY")
    return key, settings.gemini_model or DEFAULT_MODEL


@dataclass(frozen=True, slots=True)
class _OpenAIAccess:
    key: str
    model: str
    base_url: str | None
    """None selects Gemini's own compatible endpoint."""


def _openai_access(settings: Settings) -> _OpenAIAccess:
    """Return the endpoint, key and model. A key is sent only to the provider that issued it."""
    key, gemini_key = _text(settings.openai_api_key), _text(settings.gemini_api_key)
    if key or settings.openai_base_url:
        if not settings.openai_model:
            raise ConfigurationError("the model 'openai' needs OPENAI_MODEL, the name of a model of that server")
        return _OpenAIAccess(key, settings.openai_model, settings.openai_base_url or OPENAI_ENDPOINT)
    if gemini_key:
        return _OpenAIAccess(gemini_key, settings.openai_model or settings.gemini_model or DEFAULT_MODEL, None)
    raise ConfigurationError("the model 'openai' needs OPENAI_API_KEY, OPENAI_BASE_URL or GEMINI_API_KEY")


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value().strip() if secret is not None else ""
