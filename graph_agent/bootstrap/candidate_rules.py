"""Rules that may be activated: those of the files of this process, or earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from graph_agent.bootstrap.database_rules import conditions_of
from graph_agent.bootstrap.rule_sets import rule_set_of
from graph_agent.bootstrap.rule_settings import DatabaseRules, constitution_of
from graph_agent.bootstrap.rules_source import with_rules
from graph_agent.bootstrap.rules_versions import RulesVersion, read_version
from graph_agent.bootstrap.stored_rules import load_rules
from graph_agent.bootstrap.toolbox import connect, open_tools
from graph_agent.db import Database
from graph_agent.models.rule_set import RuleSet
from graph_agent.settings import Settings


class CandidateRules(NamedTuple):
    """Rules that may be activated."""

    rule_set: RuleSet
    settings: DatabaseRules
    """The settings that a process has under them."""
    version: RulesVersion
    """Their files, as `policy diff` compares them."""


async def rules_of_files(settings: Settings, database: Database, *, promises: str | None) -> CandidateRules:
    """Return the rules of the files and settings of this process. Without a lock file the tools that are served are pinned.

    Raises `ConfigurationError`, and `ServiceError` RULES_UNAVAILABLE.
    """
    constitution = constitution_of(settings)
    parts = dict(rule_set_of(settings, constitution, conditions_of(settings)).parts)
    if promises is not None and promises.strip():
        parts["promises"] = promises
    if settings.mcp is not None and "lock" not in parts:
        async with open_tools(database, settings, constitution) as tools:
            await connect(tools)
            parts["lock"] = tools.pins().to_text()
    rule_set = RuleSet(parts)
    return CandidateRules(rule_set, with_rules(settings, 0, rule_set), RulesVersion(settings, None))


async def stored_rules(settings: Settings, database: Database, number: int, folder: Path) -> CandidateRules:
    """Return earlier rules, whose files are written to `folder`. Raises as `rules_of_files`."""
    _, rule_set = await load_rules(database, number)
    version = await read_version(settings, Path(f"@{number}"), database, folder)
    return CandidateRules(rule_set, with_rules(settings, number, rule_set), version)
