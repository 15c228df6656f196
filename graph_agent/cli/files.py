"""The options that name files, the settings of a command with them, and the database of these settings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import conditions_of
from graph_agent.cli.options import ConstitutionFile, Mcp, PolicyFile, replace_parameter
from graph_agent.cli.running import open_in_loop, read_text
from graph_agent.db import Database
from graph_agent.policy.constitution import MAX_CHARACTERS
from graph_agent.settings import Settings, read_settings

T = TypeVar("T")


def with_files(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter `settings`.

    On the command line the parameter is replaced by the options for `names`, by default --mcp, --constitution and --policy; the
    command gets the settings with the files that they name.
    """
    options = signature(command_settings, eval_str=True).parameters
    return replace_parameter("settings", command_settings, [options[name] for name in names])


def command_settings(mcp: Mcp = None, constitution: ConstitutionFile = None, policy: PolicyFile = None) -> Settings:
    """Return the settings of this process, with the files that the options --mcp, --constitution and --policy name."""
    given = {"mcp": mcp, "constitution": constitution, "policy": policy}
    return read_settings().model_copy(update={name: path for name, path in given.items() if path is not None})


def run_with_database(function: Callable[[Settings, Database], Coroutine[Any, Any, T]], settings: Settings) -> T:
    """Return what `function` returns for `settings` and their database."""
    with open_in_loop(open_stores(settings)) as (stores, run):
        return run(function(settings, stores.database))


def other_rules(constitution: Path | None, policy: Path | None) -> dict[str, Any]:
    """Return the rules of these files as the parameters of a replay by them."""
    text = None if constitution is None else read_text(constitution, MAX_CHARACTERS + 1)
    return {"policy": text, "conditions": None if policy is None else conditions_of(command_settings(policy=policy))}
