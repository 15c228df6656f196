"""The options that name files, and the settings of a command with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from graph_agent.bootstrap.toolbox import conditions_of
from graph_agent.cli.running import ConstitutionFile, Mcp, PolicyFile, read_text, replace_parameter
from graph_agent.policy.constitution import MAX_CHARACTERS
from graph_agent.settings import Settings, read_settings

_OPTIONS: dict[str, Any] = {"mcp": Mcp, "constitution": ConstitutionFile, "policy": PolicyFile}


def with_files(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter `settings`.

    On the command line the parameter is replaced by the options for `names`, by default --mcp, --constitution and --policy; the
    command gets the settings with the files that they name.
    """
    return replace_parameter("settings", {name: _OPTIONS[name] for name in names or _OPTIONS}, command_settings)


def command_settings(mcp: Path | None = None, constitution: Path | None = None, policy: Path | None = None) -> Settings:
    """Return the settings of this process, with the files that the options --mcp, --constitution and --policy name."""
    given = {"mcp": mcp, "constitution": constitution, "policy": policy}
    return read_settings().model_copy(update={name: path for name, path in given.items() if path is not None})


def other_rules(constitution: Path | None, policy: Path | None) -> dict[str, Any]:
    """Return the rules of these files as the parameters of a replay by them."""
    text = None if constitution is None else read_text(constitution, MAX_CHARACTERS + 1)
    return {"policy": text, "conditions": None if policy is None else conditions_of(command_settings(policy=policy))}
