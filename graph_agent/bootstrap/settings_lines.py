"""Settings as lines of `NAME=VALUE`: in a folder of rules, and in a stored rule set."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings, read_settings, set_variables

_NO_SECRET = "a secret of no meaning"


def settings_of_file(file: Path) -> dict[str, Any]:
    """Return the settings that a file of `NAME=VALUE` lines sets, by field. Raises `ConfigurationError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the file {file} cannot be read") from exc
    return settings_of_lines(text, f"the file {file}")


def settings_of_lines(text: str, what: str) -> dict[str, Any]:
    """Return the settings that `NAME=VALUE` lines set, by field; `what` names them. Raises `ConfigurationError`."""
    variables: dict[str, str] = {}
    try:
        for number, line in enumerate(text.splitlines(), 1):
            for name, equals, value in (one.partition("=") for one in shlex.split(line, comments=True) if one != "export"):
                if not equals:
                    raise ConfigurationError(f"{what}, line {number}, is not NAME=VALUE")
                variables[name] = value
    except ValueError as exc:
        raise ConfigurationError(f"{what} cannot be read") from exc
    # A secret that only the environment has is needed for no comparison.
    read = read_settings({"GRAPH_AGENT_SECRET": _NO_SECRET, **variables})
    given = set(set_variables(variables))
    return {name: getattr(read, name) for name, field in Settings.model_fields.items() if field.alias in given}
