"""The proof that a decision is in the log, as files that anyone can check: see `graph_agent/tlog/verify_proof.py`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from sqlalchemy import Connection, select

from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.decision import unstorable
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs
from graph_agent.record.tree.reading import find_leaf, prove_leaf
from graph_agent.record.tree.tables import LeafKind

_NOT_FOUND = "There is no such decision, or it is still open."
_NOT_SEALED = "The decision is not in the tree yet. Please try again in a moment."


class DecisionProof(Frozen):
    """A record with the salt of its leaf, and the proof (c2sp.org/tlog-proof) that the leaf is in the log."""

    record: str
    """The canonical text, to the byte."""
    salt: str
    proof: str

    def decision_json(self) -> str:
        """Return the content of `decision.json`."""
        # ASCII: a record may contain lone surrogates.
        return json.dumps({"salt": self.salt, "record": self.record})

    def files(
        self, policy: str, texts: Mapping[str, str] | None = None, film: str = "", what_if: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """Return the files of a proof by name; `policy` are the keys that are proposed to the reader.

        `texts` are those that the record names, by their digests. `film` is the script that plays the turn, and `what_if` the
        report of a replay by other rules, which it shows.
        """
        raw = self.record.encode("utf-8", "surrogatepass")
        data = {
            "record": base64.b64encode(raw).decode(),
            "salt": self.salt,
            "proof": self.proof,
            "policy": policy,
            "decision": base64.b64encode(self.decision_json().encode()).decode(),
            # A browser cannot compute the digest of a text with lone surrogates.
            "texts": {digest: text for digest, text in (texts or {}).items() if not unstorable(text)},
            "what_if": what_if,
        }
        folder = resources.files("graph_agent.tlog")
        # The data last, so that nothing in it is replaced.
        page = (folder / "proof_page.html").read_text(encoding="utf-8").replace("@@FILM@@", film)
        return {
            "decision.json": self.decision_json(),
            "decision.tlog-proof": self.proof,
            "policy.txt": policy,
            "verify_proof.py": (folder / "verify_proof.py").read_text(encoding="utf-8"),
            # In a script element only "<" could end it.
            "decision.html": page.replace("@@DATA@@", json.dumps(data).replace("<", "\\u003c")),
        }


async def read_proof(database: Database, decision_id: str, *, user_id: str | None = None) -> DecisionProof:
    """Return the proof of a closed decision, of this user if one is given.

    Raises `ServiceError`: DECISION_NOT_FOUND, STORAGE_ERROR.
    """
    of_user = [] if user_id is None else [decision_logs.c.user_id == user_id]
    wanted = select(decision_logs.c.record, decision_logs.c.salt).where(
        decision_logs.c.decision_id == decision_id, CLOSED, *of_user
    )

    def work(connection: Connection) -> DecisionProof:
        row = connection.execute(wanted).one_or_none()
        n = find_leaf(connection, LeafKind.DECISION, decision_id)
        if row is None or n is None:
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, _NOT_FOUND if row is None else _NOT_SEALED)
        try:
            return DecisionProof(record=row.record, salt=row.salt or "", proof=prove_leaf(connection, n))
        except LookupError as exc:
            text = f"The decision cannot be proved: {exc}."
            raise ServiceError(ServiceErrorCode.STORAGE_ERROR, text) from exc

    return await read(database, work)
