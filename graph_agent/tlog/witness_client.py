"""The log's side of a witness: ask for the checkpoint that it has seen last, and submit a new one."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from graph_agent.tlog.checkpoint import Checkpoint, decimal, hash_lines
from graph_agent.tlog.note import KeyType, NoteError, VerifierKey
from graph_agent.tlog.witness import MAX_REQUEST_BYTES, origin_digest

SECONDS = 10.0


class WitnessError(Exception):
    """The witness did not answer, or did not cosign. The text may be shown."""


@dataclass(frozen=True)
class WitnessClient:
    """A witness at a URL, with the key of its cosignatures."""

    url: str
    key: VerifierKey

    @classmethod
    def parse(cls, text: str) -> WitnessClient:
        """Parse `URL KEY`. Raises `NoteError`."""
        url, _, key = text.strip().partition(" ")
        if not url.startswith(("https://", "http://")):
            raise NoteError("a witness is written as URL KEY, with an https URL")
        found = VerifierKey.parse(key.strip())
        if found.kind is not KeyType.COSIGNATURE:
            raise NoteError("the key of a witness makes cosignatures; this is the key of a log")
        return cls(url.rstrip("/"), found)

    async def latest(self, origin: str, log_keys: list[VerifierKey]) -> tuple[Checkpoint, int] | None:
        """Return the last checkpoint that the witness has cosigned for a log, and the POSIX time; None if it knows none.

        Raises `WitnessError`.
        """
        status, text = await self._send(f"/{origin_digest(origin)}/checkpoint")
        if status == 404:
            return None
        try:
            checkpoint, signed = Checkpoint.open(text, [self.key, *log_keys])
            if status != 200 or self.key not in signed or len(signed) < 2 or checkpoint.origin != origin:
                raise NoteError(f"it is not a checkpoint of {origin}")
        except NoteError as exc:
            raise WitnessError(f"{self.key.name} answers with status {status} and no valid checkpoint: {exc}") from None
        return checkpoint, signed[self.key]

    async def add_checkpoint(self, old: int, proof: list[bytes], note: str) -> str | int:
        """Submit a signed checkpoint; return the cosignature line, or the size of the last tree that the witness has seen.

        Raises `WitnessError`.
        """
        body = f"old {old}\n{hash_lines(proof)}\n{note}"
        status, text = await self._send("/add-checkpoint", body.encode())
        try:
            if status == 409:
                return decimal(text.removesuffix("\n"))
            if status != 200:
                raise WitnessError(f"{self.key.name} refuses the checkpoint with status {status}")
            lines = [line for line in text.splitlines() if line.startswith(f"\N{EM DASH} {self.key.name} ")]
            Checkpoint.open(note.partition("\n\n")[0] + "\n\n" + "".join(f"{line}\n" for line in lines[:1]), [self.key])
        except NoteError as exc:
            raise WitnessError(f"{self.key.name} does not answer with a valid cosignature: {exc}") from None
        return f"{lines[0]}\n"

    async def _send(self, path: str, content: bytes | None = None) -> tuple[int, str]:
        # Imported here, because it delays the start, and only a log with witnesses needs it.
        from graph_agent.net.connections import fetch

        try:
            status, answer = await fetch(f"{self.url}{path}", seconds=SECONDS, max_bytes=MAX_REQUEST_BYTES, content=content)
            return status, answer.decode()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeDecodeError) as exc:
            raise WitnessError(f"{self.key.name} does not answer") from exc
        except ValueError as exc:
            raise WitnessError(f"the answer of {self.key.name} is too long") from exc
