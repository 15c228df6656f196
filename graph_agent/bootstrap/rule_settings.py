"""The settings of a process whose rules are those of the database, whatever its files and its variables say."""

from __future__ import annotations

from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.approval_signature import ApproverKeys, parse_approver_keys, read_approver_keys
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import Settings


class DatabaseRules(Settings):
    """Settings with activated rules, which name no file of rules: the functions here and in `database_rules` read them."""

    rule_set: RuleSet
    number: int
    """The number of their activation."""
    files: Settings
    """The settings of the process itself, which count again when the rules are released."""


def constitution_of(settings: Settings) -> Constitution:
    """Return the constitution of the settings. Raises `ConfigurationError`."""
    if isinstance(settings, DatabaseRules):
        return Constitution.parse(settings.rule_set.parts["constitution"])
    return Constitution.load(settings.constitution)


def approver_keys_of(settings: Settings) -> ApproverKeys | None:
    """Return the keys of approvers; None if no signature is asked for. Raises `ConfigurationError`."""
    if isinstance(settings, DatabaseRules):
        text = settings.rule_set.parts.get("approvers")
        return None if text is None else parse_approver_keys(text, "of the activated rules")
    return None if settings.approver_keys is None else read_approver_keys(settings.approver_keys)
