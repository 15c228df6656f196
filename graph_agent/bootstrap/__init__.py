"""The only place that constructs and wires concrete things.

`open_runtime` gives a `Runtime` that serves turns and closes in order. The names are imported when they are first used: who
only reads the log does not load LangGraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graph_agent.bootstrap.adapters import (
        ModelChoice,
        build_adapter,
        check_endpoint,
        choose_adapter,
        choose_model,
        model_name,
    )
    from graph_agent.bootstrap.runtime import Runtime, open_runtime, temporary_runtime
    from graph_agent.bootstrap.secret import chain_key, read_secret, secret_file, signing_key
    from graph_agent.bootstrap.stores import Stores, open_stores
    from graph_agent.bootstrap.toolbox import call_tool, open_tools, serve_tools, served_policy, tools_app
    from graph_agent.bootstrap.validating import Validation, open_validation

LOCAL_USER = "local"
"""Whose tasks they are where nobody signs in."""

_HOMES = {
    "adapters": ("ModelChoice", "build_adapter", "check_endpoint", "choose_adapter", "choose_model", "model_name"),
    "runtime": ("Runtime", "open_runtime", "temporary_runtime"),
    "secret": ("chain_key", "read_secret", "secret_file", "signing_key"),
    "stores": ("Stores", "open_stores"),
    "toolbox": ("call_tool", "open_tools", "serve_tools", "served_policy", "tools_app"),
    "validating": ("Validation", "open_validation"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "LOCAL_USER",
    "ModelChoice",
    "Runtime",
    "Stores",
    "Validation",
    "build_adapter",
    "call_tool",
    "chain_key",
    "check_endpoint",
    "choose_adapter",
    "choose_model",
    "model_name",
    "open_runtime",
    "open_stores",
    "open_tools",
    "open_validation",
    "read_secret",
    "secret_file",
    "serve_tools",
    "served_policy",
    "signing_key",
    "temporary_runtime",
    "tools_app",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'graph_agent.bootstrap' has no attribute '{name}'")
    return getattr(import_module(f"graph_agent.bootstrap.{home}"), name)
