"""Modules that need an extra: they are imported by name, and only where a setting or a command asks for them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from graph_agent.errors import ConfigurationError


def import_extra(module: str, extra: str, needed_by: str = "this") -> ModuleType:
    """Return a module that comes with `extra` or needs it. Raises `ConfigurationError` if the extra is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("graph_agent."):
            raise
        raise ConfigurationError(extra_needed(extra, needed_by)) from exc


def import_opentelemetry(module: str) -> ModuleType:
    """Return a module of the integration with OpenTelemetry. Raises `ConfigurationError`."""
    return import_extra(f"graph_agent.integrations.opentelemetry.{module}", "otel", "GRAPH_AGENT_OTEL")


def extra_needed(extra: str, needed_by: str) -> str:
    """Return the sentence that says how `extra` is installed. `needed_by` is its subject."""
    return f"{needed_by} needs the extra '{extra}': pip install 'graph-agent[{extra}]'"
