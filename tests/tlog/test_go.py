"""Our checkpoints and proofs, checked by Go's `golang.org/x/mod/sumdb`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_agent.tlog.checkpoint import Checkpoint
from graph_agent.tlog.merkle import Frontier, consistency_proof, inclusion_proof, leaf_hash
from graph_agent.tlog.note import KeyType, SigningKey, sign
from tests.tlog.go_check import check_with_go
from tests.tlog.test_merkle import nodes_of

SIZE = 70


def facts_of_a_log() -> dict[str, Any]:
    log = SigningKey.generate("tasks.example/log", KeyType.LOG)
    witness = SigningKey.generate("witness.example/w1", KeyType.COSIGNATURE)
    entries = [f"entry {n}".encode() for n in range(SIZE)]
    leaves = list(map(leaf_hash, entries))
    tree, roots = Frontier(), []
    for leaf in leaves:
        roots.append(tree.root())
        tree.push(leaf)
    roots.append(tree.root())
    nodes = nodes_of(leaves)
    pairs = [(old, new) for new in range(1, SIZE + 1) for old in range(1, new + 1)]
    return {
        "LogKey": str(log.verifier),
        "WitnessName": witness.verifier.name,
        "WitnessID": int.from_bytes(witness.verifier.id, "big"),
        "WitnessKey": witness.verifier.public,
        "Note": sign(Checkpoint(log.verifier.name, SIZE, tree.root()).to_text(), [log, witness]),
        "Index": 41,
        "Leaves": entries,
        "Roots": roots,
        "Inclusion": inclusion_proof(nodes, 41, SIZE),
        "Consistency": [{"Old": old, "New": new, "Proof": consistency_proof(nodes, old, new)} for old, new in pairs],
    }


def test_go_opens_our_checkpoint_and_makes_the_same_roots_and_proofs(tmp_path: Path) -> None:
    facts = facts_of_a_log()
    assert check_with_go(tmp_path, facts) == f"2 signatures, {SIZE} roots, {SIZE * (SIZE + 1) // 2} consistency proofs"
    assert "differs" in check_with_go(tmp_path, {**facts, "Roots": [bytes(32)] * (SIZE + 1)})
