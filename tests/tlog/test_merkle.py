"""Merkle trees, against the reference values of Certificate Transparency and every small tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from graph_agent.tlog import verify_proof
from graph_agent.tlog.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    fold,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    node_hash,
    root_of,
)

# The leaves and roots of transparency-dev/merkle (testonly/constants.go), those of the first implementations of RFC 6962.
ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
# Of the same source (testdata/inclusion and testdata/consistency): (index, size, proof) and (old, new, proof).
INCLUSION = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
CONSISTENCY = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
LEAVES = [leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES]
REFERENCE_ROOTS = [EMPTY_ROOT, *map(bytes.fromhex, ROOTS)]


def nodes_of(leaves: list[bytes]) -> Callable[[int, int], bytes]:
    """Return the function that reads complete subtrees over `leaves`."""
    return lambda level, index: fold(leaves[index << level : (index + 1) << level])


def included_root(leaf: bytes, index: int, size: int, proof: list[bytes]) -> bytes | None:
    """Return the root that the shipped verifier computes; None if it refuses the proof."""
    try:
        return verify_proof.root_from(leaf, index, size, proof)
    except verify_proof.NotProvedError:
        return None


def plain_root(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it, by recursion."""
    if len(leaves) < 2:
        return leaves[0] if leaves else EMPTY_ROOT
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return node_hash(plain_root(leaves[:half]), plain_root(leaves[half:]))


def spoiled(proof: list[bytes], root: bytes, other: bytes) -> Iterator[list[bytes]]:
    """Yield the wrong proofs that transparency-dev/merkle derives from each right one (proof/verify_test.go)."""
    for n in range(len(proof)):
        changed = bytearray(proof[n])
        changed[0] ^= 8
        yield [*proof[:n], bytes(changed), *proof[n + 1 :]]
    for extra in (b"", root, other):
        yield [*proof, extra]
        yield [extra, *proof]
    if proof:
        yield proof[:-1]
        yield proof[1:]
        yield [*proof[:-1], proof[-1] + b"\0"]


def test_a_growing_tree_has_the_reference_roots() -> None:
    tree = Frontier()
    roots = [tree.root()]
    for leaf in LEAVES:
        tree.push(leaf)
        roots.append(tree.root())
    assert roots == REFERENCE_ROOTS


@pytest.mark.parametrize(("index", "size", "expected"), INCLUSION)
def test_inclusion_proofs_are_the_published_ones_and_no_spoiled_one_verifies(
    index: int, size: int, expected: list[str]
) -> None:
    proof, root = [bytes.fromhex(each) for each in expected], REFERENCE_ROOTS[size]
    assert inclusion_proof(nodes_of(LEAVES), index, size) == proof
    verify = partial(included_root, LEAVES[index])
    assert verify(index, size, proof) == root
    for wrong in spoiled(proof, root, LEAVES[index]):
        assert verify(index, size, wrong) != root
    for wrong_index, wrong_size in ((index - 1, size), (index + 1, size), (index ^ 2, size), (index, size * 2), (index, 0)):
        assert verify(wrong_index, wrong_size, proof) != root
    assert included_root(LEAVES[(index + 1) % 8], index, size, proof) != root


@pytest.mark.parametrize(("old", "new", "expected"), CONSISTENCY)
def test_consistency_proofs_are_the_published_ones_and_no_spoiled_one_verifies(old: int, new: int, expected: list[str]) -> None:
    proof = [bytes.fromhex(each) for each in expected]
    roots = REFERENCE_ROOTS[old], REFERENCE_ROOTS[new]
    assert consistency_proof(nodes_of(LEAVES), old, new) == proof
    assert is_consistent(old, new, *roots, proof)
    for wrong in (*spoiled(proof, *roots), [LEAVES[7]]):
        assert not is_consistent(old, new, *roots, wrong)
    for sizes in ((old - 1, new), (old + 1, new), (old ^ 2, new), (old, new * 2), (old, new // 2), (new + 1, new)):
        assert not is_consistent(*sizes, *roots, proof)
    assert old == new or not is_consistent(old, new, roots[1], roots[0], proof)


def test_every_proof_of_every_small_tree_verifies_and_none_that_is_changed() -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(40)]
    roots = [plain_root(leaves[:size]) for size in range(len(leaves) + 1)]
    nodes = nodes_of(leaves)
    for size, root in enumerate(roots):
        assert root_of(nodes, size) == root
        for index in range(size):
            proof = inclusion_proof(nodes, index, size)
            assert included_root(leaves[index], index, size, proof) == root
            assert included_root(leaves[index - 1], index, size, proof) != root or size == 1
        for old in range(size + 1):
            proof = consistency_proof(nodes, old, size)
            assert is_consistent(old, size, roots[old], root, proof)
            assert old in (0, size) or not is_consistent(old, size, roots[old - 1], root, proof)


def test_a_growing_tree_reports_the_tiles_that_it_completes() -> None:
    leaves = [leaf_hash(n.to_bytes(4, "big")) for n in range(3 * 256 + 7)]
    tree = Frontier()
    completed = [tile for leaf in leaves for tile in tree.push(leaf)]
    assert completed == [(8, n, fold(leaves[256 * n : 256 * (n + 1)])) for n in range(3)]
    # The 256th tile of one level completes the first one of the next.
    tree = Frontier(256 * 256 - 1, [leaf_hash(b"")] * 16)
    assert [tile[:2] for tile in tree.push(leaves[0])] == [(8, 255), (16, 0)]


def test_proofs_outside_of_the_tree_are_refused() -> None:
    for make, first, second in ((inclusion_proof, 3, 3), (inclusion_proof, -1, 3), (consistency_proof, 4, 3)):
        with pytest.raises(ValueError, match=r"outside|larger"):
            make(nodes_of(LEAVES), first, second)
    with pytest.raises(ValueError, match="complete subtrees"):
        Frontier(3, [EMPTY_ROOT])
