"""The rules of an installation: those of the files of this process, or those that are activated in its database."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from graph_agent.bootstrap.approvals import evidence_of
from graph_agent.bootstrap.database_rules import conditions_of, has_shipped_tools, pins_of
from graph_agent.bootstrap.rule_sets import PARTS, VARIABLES, engine_config, limits_of, rule_set_of
from graph_agent.bootstrap.rule_settings import DatabaseRules, approver_keys_of, constitution_of
from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.settings_lines import settings_of_lines
from graph_agent.db import Database
from graph_agent.errors import GraphAgentError, ServiceError, ServiceErrorCode
from graph_agent.models.rule_set import RuleSet
from graph_agent.question.approvals import ApprovalStore
from graph_agent.record.permit import RENEW_SECONDS
from graph_agent.record.rule_sets import find_activated
from graph_agent.record.rules_head import RulesHead, is_activated
from graph_agent.record.statements import read
from graph_agent.record.tree.leaves import Sealer
from graph_agent.settings import Settings
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.rules_in_force import EngineRules

_FILES = ("constitution", "conditions", "approver_keys")


def with_rules(files: Settings, number: int, rule_set: RuleSet) -> DatabaseRules:
    """Return settings with the rules of an activation in place of those of the `files` of this process.

    Raises `ServiceError` RULES_UNAVAILABLE if this version of the program cannot use them.
    """
    own = files.files if isinstance(files, DatabaseRules) else files
    fields = {name: getattr(own, name) for name in Settings.model_fields}
    fields |= {name: Settings.model_fields[name].default for name in (*VARIABLES, *_FILES)}
    try:
        if unknown := sorted(rule_set.parts.keys() - set(PARTS)):
            raise ValueError(f"they have parts that it does not know: {', '.join(unknown)}")
        fields |= settings_of_lines(rule_set.parts.get("variables", ""), "the variables of the activated rules")
        found = DatabaseRules.model_construct(**fields, rule_set=rule_set, number=number, files=own)
        if has_shipped_tools(found):
            found = found.model_copy(update={"mcp": None})
        for read in (constitution_of, conditions_of, pins_of, approver_keys_of):
            read(found)
        if limits_of(found) != rule_set.parts["settings"]:
            raise ValueError("its limits of a turn are others")
    except (GraphAgentError, KeyError, ValueError) as exc:
        text = f"This version of the program cannot use the rules {number} that are in force, so it decides nothing: {exc}"
        raise ServiceError(ServiceErrorCode.RULES_UNAVAILABLE, text) from exc
    return found


async def settings_in_force(settings: Settings, database: Database) -> Settings:
    """Return settings with the activated rules; `settings` if rules are followed.

    Raises `ServiceError`, such as RULES_UNAVAILABLE.
    """
    if not await read(database, is_activated):
        # The key is not needed then, and a command that only checks something must not make one.
        return settings.files if isinstance(settings, DatabaseRules) else settings
    sealer = Sealer(record_keys(settings))
    return _settings_under(settings, *await read(database, lambda connection: find_activated(connection, sealer)))


def read_settings_in_force(settings: Settings) -> Settings:
    """Return settings with the activated rules before a runtime is opened; `settings` if they cannot be read yet.

    The runtime reads them again, after it has created or updated the tables. Raises `ServiceError` RULES_UNAVAILABLE.
    """
    if settings.database.startswith("sqlite") and not Path(settings.database.partition(":///")[2]).is_file():
        return settings

    async def read_once() -> Settings:
        database = Database.open(settings.database, connections=settings.database_connections)
        try:
            return await settings_in_force(settings, database)
        finally:
            await database.close()

    try:
        return asyncio.run(read_once())
    except ServiceError as exc:
        if exc.code is ServiceErrorCode.RULES_UNAVAILABLE:
            raise
        return settings


def _settings_under(settings: Settings, head: RulesHead | None, rule_set: RuleSet | None) -> Settings:
    if head is None or not head.binds:
        return settings.files if isinstance(settings, DatabaseRules) else settings
    if isinstance(settings, DatabaseRules) and settings.rule_set.digest == head.digest:
        # It may have a shorter limit of time, which a command was given.
        return settings
    if rule_set is None:
        raise ServiceError(ServiceErrorCode.RULES_UNAVAILABLE, f"The rules {head.number} that are in force are missing.")
    return with_rules(settings, head.number, rule_set)


def engine_rules(settings: Settings) -> EngineRules:
    """Return the rules that an engine has by these settings. Raises `ConfigurationError`."""
    constitution, conditions = constitution_of(settings), conditions_of(settings)
    rule_set = rule_set_of(settings, constitution, conditions)
    return EngineRules(constitution, conditions, engine_config(settings), rule_set)


class InstalledRules:
    """`RulesInForce` for the engines of a process. They change when an operator activates others, between two turns."""

    def __init__(self, settings: Settings, database: Database, tools: McpServerGroup, approvals: ApprovalStore) -> None:
        self.settings = settings
        self.current = engine_rules(settings)
        self._database, self._tools, self._approvals = database, tools, approvals
        self._files = settings.files if isinstance(settings, DatabaseRules) else settings
        self._sealer = Sealer(record_keys(settings))
        self.renew_seconds = RENEW_SECONDS
        """The age from which on the rules in force are read again before a turn."""
        self._read_at = float("-inf")

    async def renew(self) -> EngineRules:
        """Return the rules for the next turn. Raises `ServiceError` RULES_UNAVAILABLE, and `ConfigurationError`."""
        began = time.monotonic()
        if began - self._read_at < self.renew_seconds:
            return self.current
        try:
            found = await read(self._database, lambda connection: find_activated(connection, self._sealer))
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.RULES_UNAVAILABLE:
                raise
            # Without the database nothing can be opened, either.
            return self.current
        settings = _settings_under(self.settings, *found)
        if settings is not self.settings:
            self._use(settings)
        self._read_at = began
        return self.current

    def _use(self, settings: Settings) -> None:
        current, evidence, pins = engine_rules(settings), evidence_of(settings), pins_of(settings)
        servers = [one.rule_set.parts.get("servers") for one in (current, self.current)]
        if settings.roles != self.settings.roles or servers[0] != servers[1]:
            text = "The rules in force have other roles or servers, which this process reads at its start: restart it."
            raise ServiceError(ServiceErrorCode.RULES_UNAVAILABLE, text)
        # All at once: no turn is prepared between two of them.
        self.settings, self.current, self._approvals.evidence = settings, current, evidence
        self._tools.use_rules(current.constitution.whitelist, pins)
