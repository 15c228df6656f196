"""Checkpoints (c2sp.org/tlog-checkpoint), which are signed notes, with the keys of a log, and proofs (c2sp.org/tlog-proof)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey, decode, encode, open_note, sign, split_note

MAX_HASHES = 63
"""The largest number of hashes in a proof."""
_PROOF = "c2sp.org/tlog-proof@v1"
_HASH_BYTES = 32
_FORK = "/fork-"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a log: its origin, the number of its leaves and the root of its tree."""

    origin: str
    size: int
    root: bytes

    def to_text(self) -> str:
        """Return the text that is signed."""
        return f"{self.origin}\n{self.size}\n{encode(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Raises `NoteError`, also for a checkpoint with extension lines, which no signature of ours would cover."""
        lines = text.split("\n")
        if len(lines) != 4 or not lines[0] or lines[3]:
            raise NoteError("it is not a checkpoint without extension lines")
        return cls(lines[0], decimal(lines[1]), _hash(lines[2]))

    @classmethod
    def open(cls, note: str, keys: Collection[VerifierKey]) -> tuple[Checkpoint, dict[VerifierKey, int]]:
        """Return the checkpoint of a signed note, and the keys that have signed it with their times.

        A log's key counts only for the log with its name. Raises `NoteError`.
        """
        origin = note.partition("\n")[0]
        text, signed = open_note(note, [key for key in keys if key.kind is not KeyType.LOG or key.name == origin])
        return cls.parse(text), signed


def decimal(text: str) -> int:
    """Return a number without leading zeros. Raises `NoteError`."""
    if not (text.isascii() and text.isdigit()) or str(int(text[:20])) != text or int(text) >= 1 << 63:
        raise NoteError("it contains a malformed number")
    return int(text)


def hash_lines(hashes: Sequence[bytes]) -> str:
    """Return the lines of a proof."""
    return "".join(f"{encode(each)}\n" for each in hashes)


def parse_hashes(lines: Sequence[str]) -> list[bytes]:
    """Return the hashes of a proof. Raises `NoteError`."""
    if len(lines) > MAX_HASHES:
        raise NoteError("the proof has too many hashes")
    return list(map(_hash, lines))


def format_proof(index: int, path: Sequence[bytes], note: str) -> str:
    """Return the proof that a leaf is in the tree of a signed checkpoint."""
    return f"{_PROOF}\nindex {index}\n{hash_lines(path)}\n{note}"


def _hash(line: str) -> bytes:
    raw = decode(line)
    if len(raw) != _HASH_BYTES:
        raise NoteError("it contains a hash that does not have 32 bytes")
    return raw


class LogKeys:
    """The signing keys, the current one first. During a rotation all of them sign."""

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self.all = tuple(keys)
        self.origin = keys[0].verifier.name
        """The origin of the log before any fork: the name of its key."""

    def sign(self, checkpoint: Checkpoint) -> str:
        """Return the signed checkpoint."""
        return sign(checkpoint.to_text(), [SigningKey.of(checkpoint.origin, KeyType.LOG, key.private) for key in self.all])

    def open(self, note: str) -> Checkpoint:
        """Return a checkpoint of this log or of a fork of it. Raises `NoteError` if no key of the log has signed it."""
        origin = note.partition("\n")[0]
        if origin != self.origin and not origin.startswith(f"{self.origin}{_FORK}"):
            raise NoteError(f"it is a checkpoint of another log, {origin}")
        return Checkpoint.open(note, self.verifiers(origin))[0]

    def newest_of(self, note: str) -> VerifierKey:
        """Return the key that signed a checkpoint first. Raises `NoteError` if it is none of these: then they are outdated."""
        text, (first, *_) = split_note(note)
        (newest,) = open_note(f"{text}\n{first}\n", self.verifiers(text.partition("\n")[0]))[1]
        return newest

    def verifiers(self, origin: str) -> list[VerifierKey]:
        """Return the public keys by which checkpoints of this origin are verified."""
        return [VerifierKey(origin, KeyType.LOG, key.verifier.public) for key in self.all]

    def next_fork(self, origin: str) -> str:
        """Return the origin of the log after a fork of `origin`."""
        _, _, number = origin.partition(f"{self.origin}{_FORK}")
        return f"{self.origin}{_FORK}{int(number or 1) + 1}"
