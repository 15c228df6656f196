"""The keys that sign the checkpoints of a log, and the origins under which they do: that of the log and those of its forks."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.tlog.checkpoint import Checkpoint
from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey, sign

_FORK = "/fork-"


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

    def verifiers(self, origin: str) -> list[VerifierKey]:
        """Return the public keys by which checkpoints of this origin are verified."""
        return [VerifierKey(origin, KeyType.LOG, key.verifier.public) for key in self.all]

    def next_fork(self, origin: str) -> str:
        """Return the origin of the log after a fork of `origin`."""
        _, _, number = origin.partition(f"{self.origin}{_FORK}")
        return f"{self.origin}{_FORK}{int(number or 1) + 1}"
