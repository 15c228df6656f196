"""The files by which anyone can check one decision, without this program and without a network."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any

from graph_agent.db import Database
from graph_agent.record.rule_sets import list_rule_sets
from graph_agent.record.statements import read
from graph_agent.record.tree.reading import read_leaves, read_proof, read_statements
from graph_agent.record.tree.service import RecordTree
from graph_agent.replays.argument_sources import argument_sources
from graph_agent.replays.sources import LoadedRecord, load_from_log


async def proof_files(
    database: Database,
    tree: RecordTree,
    decision_id: str,
    *,
    user_id: str | None = None,
    what_if: Callable[[LoadedRecord], Awaitable[Mapping[str, Any]]] | None = None,
) -> dict[str, str]:
    """Return the files of the proof of a decision that is sealed, by name. It is one of `user_id`, if that is given.

    `what_if` replays the record by other rules for `decision.html`. It returns the JSON of the report, and under "rules" their
    texts by their names. Raises `ServiceError`: DECISION_NOT_FOUND, STORAGE_ERROR.
    """
    await tree.push()
    proof = await read_proof(database, decision_id, user_id=user_id)
    recorded = await load_from_log(database, decision_id)
    report = None if what_if is None else await what_if(recorded)
    keys = [f"log {key}" for key in tree.keys.verifiers(await tree.origin())]
    keys += [f"witness {witness.key}" for witness in tree.witnesses]
    # Without the built page there is no film.
    film = resources.files("graph_agent") / "api" / "page" / "film.js"
    script = film.read_text(encoding="utf-8") if film.is_file() else ""
    sources = await argument_sources(database, recorded)
    return proof.files("".join(f"{key}\n" for key in keys), recorded.texts, script, report, sources)


async def rules_files(database: Database) -> dict[str, str]:
    """Return the files that show which rules were in force when, by name: every leaf, every statement, and the rule sets.

    A leaf reveals nothing without its salt, and a statement names no person. Raises `ServiceError` STORAGE_ERROR.
    """
    leaves, statements = await read(database, read_leaves, seconds=None), await read(database, read_statements, seconds=None)
    sets = await read(database, list_rule_sets)
    return {
        "leaves.txt": "".join(f"{kind} {commitment}\n" for kind, commitment in leaves),
        "statements.json": json.dumps(statements),
        **{f"{digest}.json": rule_set.manifest for digest, rule_set in sets.items()},
    }
