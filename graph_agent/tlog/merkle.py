"""The Merkle tree of RFC 6962: roots, inclusion and consistency proofs (RFC 9162, section 2.1).

A proof reads the tree through a `Nodes` function, so that hashes can be stored in any way. All hashes are SHA-256, 32 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

TILE_LEVELS = 8
"""A tile has 256 hashes: complete subtrees are stored at every eighth level (c2sp.org/tlog-tiles)."""
EMPTY_ROOT = hashlib.sha256(b"").digest()

Nodes = Callable[[int, int], bytes]
"""Called with (level, index): returns the hash of the complete subtree of the leaves [index << level, (index + 1) << level)."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of a leaf; its prefix keeps a leaf from passing for an inner node."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\1" + left + right).digest()


def fold(hashes: Sequence[bytes]) -> bytes:
    """Return the root of a complete subtree, whose hashes at one level are given; their number is a power of two."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[n], hashes[n + 1]) for n in range(0, len(hashes), 2)]
    return hashes[0]


class Frontier:
    """A tree that grows: its size, and the roots of its complete subtrees, the largest first."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Raises ValueError if the number of hashes does not fit the size."""
        self.size, self.hashes = size, list(hashes)
        if len(self.hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves does not have {len(self.hashes)} complete subtrees")

    def push(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """Append the hash of a leaf; return each tile that it completes as (level, index, root) of its subtree."""
        completed = []
        level, index = 0, self.size
        while index & 1:
            leaf = node_hash(self.hashes.pop(), leaf)
            level, index = level + 1, index >> 1
            if level % TILE_LEVELS == 0:
                completed.append((level, index, leaf))
        self.hashes.append(leaf)
        self.size += 1
        return completed

    def root(self) -> bytes:
        """Return the root of the whole tree."""
        return _join(self.hashes) if self.hashes else EMPTY_ROOT


def root_of(nodes: Nodes, size: int) -> bytes:
    """Return the root of the tree of the first `size` leaves."""
    return _range_root(nodes, 0, size) if size else EMPTY_ROOT


def inclusion_proof(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """Return the proof that the leaf at `index` is in the tree of `size` leaves, its sibling first. Raises ValueError."""
    if not 0 <= index < size:
        raise ValueError("the index is outside of the tree")
    return _path_to(nodes, index, size)[0]


def consistency_proof(nodes: Nodes, old: int, new: int) -> list[bytes]:
    """Return the proof that the tree of `old` leaves is the beginning of that of `new` leaves. Raises ValueError."""
    if not 0 <= old <= new:
        raise ValueError("the old tree is larger than the new one")
    if old in (0, new):
        return []
    path, start = _path_to(nodes, old - 1, new, until_end=old)
    # If the whole old tree is one node of the new one, its root is known to the verifier.
    return [_range_root(nodes, start, old), *path] if start else path


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """True if the proof shows that the old tree is the beginning of the new one. The proof from an empty tree is empty."""
    if not 0 <= old <= new:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT and (new > 0 or new_root == EMPTY_ROOT)
    if old == new:
        return not proof and old_root == new_root
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not proof:
        return False
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    found_old = found_new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            found_old, found_new = node_hash(sibling, found_old), node_hash(sibling, found_new)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            found_new = node_hash(found_new, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and (found_old, found_new) == (old_root, new_root)


def _path_to(nodes: Nodes, index: int, size: int, *, until_end: int | None = None) -> tuple[list[bytes], int]:
    """Go down from the root to a leaf, or only to the first subtree that ends before `until_end`.

    Return the roots beside the way, lowest first, and the start of the subtree that was reached.
    """
    path = []
    low, high = 0, size
    while high - low > 1 and high != until_end:
        middle = low + (1 << ((high - low - 1).bit_length() - 1))
        if index < middle:
            path.append(_range_root(nodes, middle, high))
            high = middle
        else:
            path.append(_range_root(nodes, low, middle))
            low = middle
    return path[::-1], low


def _range_root(nodes: Nodes, low: int, high: int) -> bytes:
    """Return the root of the leaves [low, high), where `low` is a multiple of a power of two that is at least their number."""
    parts = []
    while low < high:
        level = (high - low).bit_length() - 1
        parts.append(nodes(level, low >> level))
        low += 1 << level
    return _join(parts)


def _join(hashes: Sequence[bytes]) -> bytes:
    """Return the root over complete subtrees, the largest first."""
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root
