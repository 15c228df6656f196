"""Reads of the tree: its head, the hashes of its subtrees, tiles (c2sp.org/tlog-tiles) and proofs.

The proof that a decision is in the log is given as files that anyone can check: see `graph_agent/tlog/verify_proof.py`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode, no_closed_decision
from graph_agent.models.base import Frozen
from graph_agent.models.decision import unstorable
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs
from graph_agent.record.tree.leaves import leaf_entry
from graph_agent.record.tree.tables import (
    LeafKind,
    record_leaves,
    tree_cosignatures,
    tree_head,
    tree_leaves,
    tree_nodes,
    tree_statements,
)
from graph_agent.tlog.checkpoint import Checkpoint, format_proof
from graph_agent.tlog.merkle import TILE_LEVELS, Frontier, Nodes, fold, inclusion_proof, leaf_hash, root_of
from graph_agent.tlog.note import first_signer

TILE = 1 << TILE_LEVELS
"""Hashes in a tile."""

_NOT_SEALED = "The decision is not in the tree yet. Please try again in a moment."


class TreeHead(NamedTuple):
    """The tree as it was last signed."""

    frontier: Frontier
    note: str


def read_head(connection: Connection) -> TreeHead | None:
    """Return the head; None if the tree has no leaf yet. Raises ValueError if the row was changed by hand."""
    query = select(tree_head.c.size, tree_head.c.frontier, tree_head.c.note).where(tree_head.c.id == 1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if not (isinstance(row.size, int) and isinstance(row.frontier, bytes) and isinstance(row.note, str)):
        raise ValueError("a column has a value of another type")
    hashes = [row.frontier[n : n + 32] for n in range(0, len(row.frontier), 32)]
    return TreeHead(Frontier(row.size, hashes), row.note)


def read_tile(connection: Connection, level: int, n: int, width: int = TILE) -> list[bytes]:
    """Return the first `width` hashes of a tile, or as many as there are: of leaves (level 0), or of tiles one level below."""
    if level == 0:
        return list(map(leaf_hash, read_entries(connection, n, width)))
    nodes = select(tree_nodes.c.hash).where(tree_nodes.c.level == level, tree_nodes.c.n.between(TILE * n, TILE * n + width - 1))
    return list(connection.execute(nodes.order_by(tree_nodes.c.n)).scalars())


def read_entries(connection: Connection, n: int, width: int = TILE) -> list[bytes]:
    """Return the first `width` leaves of the tile `n`, or as many as there are."""
    leaves = select(tree_leaves.c.kind, tree_leaves.c.commitment).where(tree_leaves.c.n.between(TILE * n, TILE * n + width - 1))
    return [leaf_entry(*row) for row in connection.execute(leaves.order_by(tree_leaves.c.n))]


def read_leaves(connection: Connection) -> list[tuple[str, str]]:
    """Return the kind and the commitment, in base64, of every leaf."""
    rows = connection.execute(select(tree_leaves.c.kind, tree_leaves.c.commitment).order_by(tree_leaves.c.n))
    return [(str(row.kind), base64.b64encode(row.commitment).decode()) for row in rows]


def read_statements(connection: Connection) -> list[dict[str, Any]]:
    """Return what opens the leaf of each statement: its number, its salt and its text."""
    is_statement = (record_leaves.c.kind == LeafKind.STATEMENT) & (record_leaves.c.item == tree_statements.c.statement_id)
    wanted = select(record_leaves.c.n, tree_statements.c.salt, tree_statements.c.text).join(tree_statements, is_statement)
    return [
        {"leaf": row.n, "salt": row.salt, "text": row.text} for row in connection.execute(wanted.order_by(record_leaves.c.n))
    ]


def stored_nodes(connection: Connection) -> Nodes:
    """Return the function by which proofs read the tree. Each tile is read once. It raises LookupError for missing rows."""
    tiles: dict[tuple[int, int], list[bytes]] = {}

    def node(level: int, index: int) -> bytes:
        tile_level, within = divmod(level, TILE_LEVELS)
        n, first = divmod(index << within, TILE)
        if (tile_level, n) not in tiles:
            tiles[tile_level, n] = read_tile(connection, tile_level, n)
        hashes = tiles[tile_level, n][first : first + (1 << within)]
        if len(hashes) != 1 << within:
            raise LookupError(f"rows of the tree at level {tile_level} are missing")
        return fold(hashes)

    return node


def has_prefix(connection: Connection, seen: Checkpoint) -> bool:
    """True if the stored tree begins with the tree of a checkpoint, whatever its origin."""
    try:
        return root_of(stored_nodes(connection), seen.size) == seen.root
    except (LookupError, TypeError):
        return False


def find_leaf(connection: Connection, kind: LeafKind, item: str) -> int | None:
    """Return the position of a row's leaf; None if it is not in the tree."""
    return connection.scalar(select(record_leaves.c.n).where(record_leaves.c.kind == kind, record_leaves.c.item == item))


def prove_leaf(connection: Connection, n: int) -> str:
    """Return the proof (c2sp.org/tlog-proof) of a leaf in the newest tree that witnesses have cosigned, else in the head's.

    After a rotation or a fork only trees count that the log has signed with its newest key. Raises LookupError if rows of the
    tree are missing.
    """
    newest = select(func.max(tree_cosignatures.c.size)).scalar_subquery()
    signed = select(tree_cosignatures).where(tree_cosignatures.c.size == newest, tree_cosignatures.c.size > n)
    head, rows = read_head(connection), connection.execute(signed.order_by(tree_cosignatures.c.witness)).all()
    if head is None:
        raise LookupError("the tree has no leaf")
    is_current = rows and first_signer(rows[0].note) == first_signer(head.note)
    note = f"{rows[0].note}{''.join(row.line for row in rows)}" if is_current else head.note
    checkpoint = Checkpoint.parse(note.partition("\n\n")[0] + "\n")
    return format_proof(n, inclusion_proof(stored_nodes(connection), n, checkpoint.size), note)


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
        self,
        trusted_keys: str,
        texts: Mapping[str, str] | None = None,
        film: str = "",
        what_if: Mapping[str, Any] | None = None,
        sources: Mapping[int, Any] | None = None,
    ) -> dict[str, str]:
        """Return the files of a proof by name; `trusted_keys` are those that are proposed to the reader.

        `texts` are those that the record names, by their digests. `film` is the script that plays the turn, and `what_if` the
        report of a replay by other rules, which it shows. `sources` has, by the sequence of a call, where the value of each
        argument came from.
        """
        raw = self.record.encode("utf-8", "surrogatepass")
        data = {
            "record": base64.b64encode(raw).decode(),
            "salt": self.salt,
            "proof": self.proof,
            "trusted_keys": trusted_keys,
            "decision": base64.b64encode(self.decision_json().encode()).decode(),
            # A browser cannot compute the digest of a text with lone surrogates.
            "texts": {digest: text for digest, text in (texts or {}).items() if not unstorable(text)},
            "what_if": what_if,
            "sources": sources or {},
        }
        folder = resources.files("graph_agent.tlog")
        # The data last, so that nothing in it is replaced.
        page = (folder / "proof_page.html").read_text(encoding="utf-8").replace("@@FILM@@", film)
        return {
            "decision.json": self.decision_json(),
            "decision.tlog-proof": self.proof,
            "trusted_keys.txt": trusted_keys,
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

    def read_and_prove(connection: Connection) -> DecisionProof:
        row = connection.execute(wanted).one_or_none()
        n = find_leaf(connection, LeafKind.DECISION, decision_id)
        if row is None:
            raise no_closed_decision()
        if n is None:
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, _NOT_SEALED)
        try:
            return DecisionProof(record=row.record, salt=row.salt or "", proof=prove_leaf(connection, n))
        except LookupError as exc:
            text = f"The decision cannot be proved: {exc}."
            raise ServiceError(ServiceErrorCode.STORAGE_ERROR, text) from exc

    return await read(database, read_and_prove)
