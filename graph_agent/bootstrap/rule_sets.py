"""The rule set of the files and settings of a process."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from graph_agent.bootstrap.rule_settings import DatabaseRules
from graph_agent.bootstrap.toolbox import lock_file_of
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import MAX_TOOL_ITERATIONS, AgentEngineConfig, TokenLimits
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import Settings
from graph_agent.tools.server_file import servers_of_rules

VARIABLES: Final = (
    "roles", "time_zone", "timeout_seconds", "max_iterations", "after_yes", "approval_hours", "turn_tokens", "day_tokens",
)  # fmt: skip
"""The settings that are rules."""
PARTS: Final = (
    "constitution", "conditions", "condition settings", "promises", "settings", "variables", "servers", "lock", "approvers",
)  # fmt: skip
"""The parts that a rule set may have in this version."""
_LIMITS: Final = ("max_iterations", "timeout_seconds", "after_yes", "approval_hours", "tokens")
"""The limits of a turn that follow from them, and from the defaults of this version."""


def engine_config(settings: Settings) -> AgentEngineConfig:
    """Return the settings of the engine."""
    limited = settings.turn_tokens is not None or settings.day_tokens is not None
    limits = TokenLimits(turn=settings.turn_tokens, day=settings.day_tokens, time_zone=settings.time_zone)
    return AgentEngineConfig(
        max_iterations=settings.max_iterations or MAX_TOOL_ITERATIONS,
        timeout_seconds=settings.timeout_seconds,
        after_yes=settings.after_yes,
        approval_hours=settings.approval_hours,
        tokens=limits if limited else None,
    )


def rule_set_of(settings: Settings, constitution: Constitution, conditions: ConditionsFile | None) -> RuleSet:
    """Return the rule set of the commands and the server with these settings. Raises `ConfigurationError`."""
    if isinstance(settings, DatabaseRules):
        return settings.rule_set
    parts = {"constitution": constitution.text, **parts_of_installation(settings)}
    if conditions is not None:
        parts["conditions"] = conditions.text
        parts["condition settings"] = canonical_json({"roles": conditions.roles, "time_zone": conditions.time_zone})
    return RuleSet(parts)


def parts_of_installation(settings: Settings) -> dict[str, str]:
    """Return the parts of the rule set but for constitution and conditions, by their names. Raises `ConfigurationError`.

    No part has a secret, an address, a model or a person.
    """
    found = {"settings": limits_of(settings), "variables": "".join(_variables(settings))}
    if settings.mcp is not None:
        found["servers"] = canonical_json(servers_of_rules(settings.mcp))
    if (lock := lock_file_of(settings)) is not None and lock.exists():
        found["lock"] = _read("lock file", lock)
    if settings.approver_keys is not None:
        found["approvers"] = _read("file of the approvers' keys", settings.approver_keys)
    return {name: text for name, text in found.items() if text}


def limits_of(settings: Settings) -> str:
    """Return the limits of a turn, as a rule set has them."""
    config = engine_config(settings).to_json()
    return canonical_json({name: config[name] for name in _LIMITS if name in config})


def _variables(settings: Settings) -> Iterator[str]:
    """Yield the settings that are rules and not the default, as lines of a file of variables."""
    for name in VARIABLES:
        value, info = getattr(settings, name), Settings.model_fields[name]
        if value != info.default:
            yield f"{info.alias}={shlex.quote(str(value))}\n"


def _read(what: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the {what} {path} cannot be read") from exc
