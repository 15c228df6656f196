"""The conditions, the pinned tools and the servers of settings: those of activated rules, or of files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graph_agent.bootstrap.rule_settings import DatabaseRules
from graph_agent.errors import ConfigurationError
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.settings import Settings
from graph_agent.tools.pins import Pins, lock_file
from graph_agent.tools.server_file import servers_of_rules


def conditions_of(settings: Settings) -> ConditionsFile | None:
    """Return the conditions of the settings. Raises `ConfigurationError`."""
    if isinstance(settings, DatabaseRules):
        return conditions_of_rules(settings.rule_set)
    if settings.conditions is None:
        return None
    return ConditionsFile.load(settings.conditions, settings.role_names, settings.time_zone)


def conditions_of_rules(rule_set: RuleSet) -> ConditionsFile | None:
    """Return the conditions with their roles and time zone; None if the rules have none."""
    if "conditions" not in rule_set.parts:
        return None
    belongs = json.loads(rule_set.parts["condition settings"])
    return ConditionsFile(rule_set.parts["conditions"], roles=tuple(belongs["roles"]), time_zone=belongs["time_zone"])


def pins_of(settings: Settings) -> Pins | None:
    """Return the pinned tools: those in the lock file beside the constitution, if there are any for its MCP servers."""
    if isinstance(settings, DatabaseRules):
        text = settings.rule_set.parts.get("lock")
        return None if text is None else Pins.parse(text, "the lock file of the activated rules")
    if settings.mcp is None or settings.constitution is None:
        return None
    return Pins.load(lock_file(settings.constitution))


def missing_servers(settings: Settings) -> Mapping[str, str]:
    """Return the servers of activated rules that this process does not have as they say, and why; of others, none."""
    if not isinstance(settings, DatabaseRules):
        return {}
    named = _named_servers(settings)
    here = {} if settings.mcp is None else {one["name"]: one for one in servers_of_rules(settings.mcp)}
    return {
        name: "this process has no such server" if name not in here else "its entry here is not that of the activated rules"
        for name, entry in named.items()
        if here.get(name) != entry
    }


def has_server(settings: Settings, name: str) -> bool:
    """True if a server of the file of servers is one of the rules, with this entry."""
    return not isinstance(settings, DatabaseRules) or (
        name in _named_servers(settings) and name not in missing_servers(settings)
    )


def has_shipped_tools(settings: Settings) -> bool:
    """True if the tools are those of the shipped task server."""
    return "servers" not in settings.rule_set.parts if isinstance(settings, DatabaseRules) else settings.mcp is None


def _named_servers(settings: DatabaseRules) -> dict[str, dict[str, Any]]:
    stored = settings.rule_set.parts.get("servers")
    found: list[dict[str, Any]] = [] if stored is None else json.loads(stored)
    return {one["name"]: one for one in found}


def require_conditions(rule_set: RuleSet) -> ConditionsFile:
    """Return the conditions of rules. Raises `ConfigurationError` if they have none."""
    if (conditions := conditions_of_rules(rule_set)) is None:
        raise ConfigurationError("these rules have no conditions")
    return conditions
