"""`graph-agent log export --proof`: the files by which anyone can check one decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_agent.bootstrap.database_rules import conditions_of, require_conditions
from graph_agent.bootstrap.proof_files import proof_files, rules_files
from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.bootstrap.stored_rules import load_rules, number_of_rules
from graph_agent.cli.database import open_log
from graph_agent.cli.last import decision_id_of
from graph_agent.cli.options import command_settings
from graph_agent.cli.running import print_stderr, read_text, wrong_usage
from graph_agent.clock import SystemClock
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import MAX_CHARACTERS
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.sources import LoadedRecord
from graph_agent.settings import read_settings


def other_rules(constitution: Path | None, conditions: Path | None) -> WhatIf:
    """Return the replay by the rules of these files, or of an activation that `@N` names. Raises `ConfigurationError`."""
    return WhatIf(
        None if constitution is None else _constitution(constitution), None if conditions is None else _conditions(conditions)
    )


def _constitution(file: Path) -> str:
    stored = _stored_rules(file)
    return read_text(file, MAX_CHARACTERS + 1) if stored is None else stored.parts["constitution"]


def _conditions(file: Path) -> ConditionsFile | None:
    stored = _stored_rules(file)
    return conditions_of(command_settings(conditions=file)) if stored is None else require_conditions(stored)


def _stored_rules(file: Path) -> RuleSet | None:
    number = number_of_rules(file)
    if number is None:
        return None
    with open_log() as (database, run):
        return run(load_rules(database, number))[1]


def write_proof(
    decision_id: str, folder: Path, constitution: Path | None, conditions: Path | None, *, with_rules: bool = False
) -> None:
    """Write the proof of a decision to a folder, with what these rules would have decided if there are any."""
    other = other_rules(constitution, conditions)

    async def replay_by_others(recorded: LoadedRecord) -> dict[str, Any]:
        texts = {constitution: other.constitution, conditions: other.conditions and other.conditions.text}
        rules = {file.name: text for file, text in texts.items() if file is not None}
        return {"rules": rules, **(await recorded.replay(Replayer(), other)).to_json()}

    with open_log(writes=True) as (database, run):
        decision_id = decision_id_of(decision_id, database, run)
        tree = record_tree(read_settings(), database, SystemClock())
        run(tree.seal())
        files = run(proof_files(database, tree, decision_id, what_if=replay_by_others if constitution or conditions else None))
        in_force = run(rules_files(database)) if with_rules else {}
    try:
        (folder / "rules" if with_rules else folder).mkdir(parents=True, exist_ok=True)
        for name, text in {**files, **{f"rules/{name}": text for name, text in in_force.items()}}.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as exc:
        wrong_usage(f"the folder {folder} cannot be written: {exc.strerror}")
    print_stderr(
        f"{folder}: open decision.html, or run: python verify_proof.py decision.json decision.tlog-proof trusted_keys.txt"
        + (" --rules rules" if with_rules else "")
    )
