"""The files by which anyone can check one decision, without this program and without a network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any

from graph_agent.db import Database
from graph_agent.record.tree.reading import read_proof
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
