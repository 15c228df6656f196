"""The choice of the model: the explicit one, else GRAPH_AGENT_MODEL, else Gemini if it has a key, else the embedded one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.errors import ConfigurationError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.families import DEFAULT_MODEL, successor
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import NO_KEY, OpenAICompatibleAdapter
from graph_agent.llm.provider_adapter import ProviderAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.ports import LLMAdapter
from graph_agent.settings import Settings

OPENAI_ENDPOINT = "https://api.openai.com/v1"

CHOICES = "embedded, embedded:FILE, gemini, openai or scripted:FILE"
_WITH_FILE = {"embedded": False, "scripted": True}
"""The kinds that take a file, and if they need it."""
_KINDS = ("embedded", "gemini", "openai", "scripted")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """`kind` is one of the four kinds, `reason` a few words for the user.

    `file` is the script of a scripted model, or the requests that the embedded model answers instead of those for tasks.
    """

    kind: str
    reason: str
    file: str | None = None


def choose_model(settings: Settings, explicit: str | None = None) -> ModelChoice:
    """Choose without constructing an adapter. Raises `ConfigurationError` for a choice that does not exist."""
    if explicit is not None:
        return _read(explicit, "chosen on the command line")
    if settings.model is not None:
        return _read(settings.model, "chosen by GRAPH_AGENT_MODEL")
    if settings.gemini_api_key is not None:
        return ModelChoice("gemini", "GEMINI_API_KEY is set")
    return ModelChoice("embedded", "no GEMINI_API_KEY is set")


def choose_adapter(settings: Settings, explicit: str | None = None) -> tuple[LLMAdapter, str]:
    """Return the adapter, and one line that says which it is, why it was chosen, and which model replaces its model.

    Raises `ConfigurationError` if the key, the model or the file is missing.
    """
    choice = choose_model(settings, explicit)
    adapter = _adapter(settings, choice)
    if sentence := unserved_tools(adapter, settings):
        return adapter, f"{choice.kind}: {choice.reason}; {sentence}"
    name = choice.kind if adapter.model == choice.kind else f"{choice.kind} ({adapter.model})"
    replacement = successor(adapter.model)
    return adapter, f"{name}: {choice.reason}" + (f"; its successor is {replacement}" if replacement else "")


def unserved_tools(adapter: LLMAdapter, settings: Settings) -> str | None:
    """Return a sentence if the model knows only certain tools, as the embedded one, and the constitution grants none."""
    known = getattr(adapter, "knows", None)
    if known is None:
        return None
    try:
        granted = constitution_of(settings).whitelist
    except ConfigurationError:  # The check of the constitution reports it.
        return None
    # As `server.tool`, too.
    if known & {name.rpartition(".")[2] for name in granted}:
        return None
    return (
        "it can only serve the shipped tools, and the constitution grants none of them: choose another model, or embedded:FILE"
    )


@asynccontextmanager
async def open_adapter(settings: Settings, explicit: str | None = None) -> AsyncGenerator[tuple[LLMAdapter, str]]:
    """Yield what `choose_adapter` returns, and close the connections of the adapter on leaving."""
    adapter, reason = choose_adapter(settings, explicit)
    try:
        yield adapter, reason
    finally:
        if isinstance(adapter, ProviderAdapter):
            await adapter.aclose()


def _read(text: str, reason: str) -> ModelChoice:
    kind, colon, file = text.strip().partition(":")
    if kind not in _KINDS or (colon and (kind not in _WITH_FILE or not file)) or (_WITH_FILE.get(kind) and not colon):
        raise ConfigurationError(f"there is no model '{text}': choose {CHOICES}")
    return ModelChoice(kind, reason, file or None)


def _adapter(settings: Settings, choice: ModelChoice) -> LLMAdapter:
    if choice.kind == "scripted" and choice.file is not None:
        return ScriptedAdapter.from_file(choice.file)
    if choice.kind == "embedded" and choice.file is not None:
        # Imported here, because it loads YAML, which no other model needs.
        from graph_agent.llm.embedded.fixed_requests import FixedRequestsAdapter

        return FixedRequestsAdapter.from_file(choice.file)
    if choice.kind == "embedded":
        # Imported here, because another model may be chosen, and its vocabulary delays the start.
        from graph_agent.llm.embedded.planning import EmbeddedAdapter

        return EmbeddedAdapter()
    return _gemini(settings) if choice.kind == "gemini" else _openai(settings)


def _gemini(settings: Settings) -> LLMAdapter:
    key = _text(settings.gemini_api_key)
    if not key:
        raise ConfigurationError("the model 'gemini' needs GEMINI_API_KEY")
    model, url, storage = settings.gemini_model or DEFAULT_MODEL, settings.gemini_base_url, settings.allow_model_storage
    return GeminiAdapter(key, model, base_url=url, config=_config(settings), allow_storage=storage)


def _openai(settings: Settings) -> LLMAdapter:
    """Return the adapter for OPENAI_BASE_URL, OpenAI, or Gemini's own compatible endpoint.

    A key is sent only to the provider that issued it.
    """
    key, gemini_key = _text(settings.openai_api_key), _text(settings.gemini_api_key)
    storage = settings.allow_model_storage
    if key or settings.openai_base_url:
        if not settings.openai_model:
            raise ConfigurationError("the model 'openai' needs OPENAI_MODEL, the name of a model of that server")
        url = settings.openai_base_url or OPENAI_ENDPOINT
        return OpenAICompatibleAdapter(
            key, settings.openai_model, base_url=url, config=_config(settings), allow_storage=storage
        )
    if gemini_key:
        model = settings.openai_model or settings.gemini_model or DEFAULT_MODEL
        return OpenAICompatibleAdapter(gemini_key, model, config=_config(settings), allow_storage=storage)
    raise ConfigurationError("the model 'openai' needs OPENAI_API_KEY, OPENAI_BASE_URL or GEMINI_API_KEY")


def _config(settings: Settings) -> LLMConfig | None:
    """Return the limits that the settings set; the adapter replaces the key and the model."""
    return None if settings.attempt_seconds is None else LLMConfig(api_key=NO_KEY, timeout_seconds=settings.attempt_seconds)


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value().strip() if secret is not None else ""
