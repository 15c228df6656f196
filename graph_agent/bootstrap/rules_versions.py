"""Stored rules in place of files: for `policy diff`, and for a replay."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from graph_agent.bootstrap.policies import settings_in
from graph_agent.bootstrap.rule_sets import VARIABLES, parts_of_installation
from graph_agent.bootstrap.stored_rules import load_rules, number_of_rules, write_rules
from graph_agent.db import Database
from graph_agent.settings import Settings


class RulesVersion(NamedTuple):
    """One of two versions of the rules that are compared."""

    settings: Settings
    servers: str | None
    """The servers of its rule set; None for files, whose servers are in the settings."""


async def read_version(settings: Settings, version: Path, database: Database, folder: Path) -> RulesVersion:
    """Return the settings with the files of `version`: `@N` for the rules of an activation, or as `settings_in` takes it.

    Stored rules are written to a part of `folder`, which has to stay as long as the settings are used. What they do not have is
    unset; the servers are those of `settings`. Raises `ConfigurationError`.
    """
    number = number_of_rules(version)
    if number is None:
        return RulesVersion(settings_in(settings, version), None)
    _, rule_set = await load_rules(database, number)
    written = folder / str(number)
    write_rules(rule_set, written)
    unset = {name: Settings.model_fields[name].default for name in (*VARIABLES, "conditions", "approver_keys")}
    return RulesVersion(settings_in(settings.model_copy(update=unset), written), rule_set.parts.get("servers", ""))


def have_other_servers(old: RulesVersion, new: RulesVersion) -> bool:
    """True if stored rules name other servers, of which they have only digests. Raises `ConfigurationError`."""
    if old.servers is None and new.servers is None:
        return False
    return _servers(old) != _servers(new)


def _servers(version: RulesVersion) -> str:
    return parts_of_installation(version.settings).get("servers", "") if version.servers is None else version.servers
