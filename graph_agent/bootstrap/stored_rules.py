"""The rules of an activation, and their files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.models.rule_set import Activation, RuleSet
from graph_agent.record.rule_sets import find_activation
from graph_agent.record.statements import read

_FILES: Final = {
    "constitution": "constitution.md",
    "conditions": "policy.cedar",
    "variables": "settings.env",
    "approvers": "allowed_signers",
    "lock": "constitution.lock",
}
"""Part -> its file in a folder of rules, as `policy diff` reads it."""
_NUMBER: Final = re.compile(r"@(\d{1,9})")


async def load_rules(database: Database, number: int | None = None) -> tuple[Activation, RuleSet]:
    """Return an activation, by default the one in force, with its rules. Raises `ConfigurationError` if there is none."""
    found = await read(database, lambda connection: find_activation(connection, number))
    if found is None:
        which = "no rules have been in force yet" if number is None else f"there are no rules with the number {number}"
        raise ConfigurationError(f"{which}; `graph-agent rules list` lists them")
    return found


def number_of_rules(file: Path) -> int | None:
    """Return the number of an activation that is given as `@N` in place of a file; None for a file."""
    match = _NUMBER.fullmatch(str(file))
    return None if match is None else int(match[1])


def write_rules(rule_set: RuleSet, folder: Path) -> list[str]:
    """Write the files of a rule set to a folder, which is created, and return their names. Raises `ConfigurationError`.

    The file of servers is not among them: of it a rule set has only digests.
    """
    files = {file: rule_set.parts[part] for part, file in _FILES.items() if part in rule_set.parts}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as exc:
        raise ConfigurationError(f"the folder {folder} cannot be written: {exc.strerror}") from exc
    return sorted(files)
