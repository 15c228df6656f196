"""A witness (c2sp.org/tlog-witness): it cosigns a checkpoint only if the log has grown from the last one that it has seen.

It keeps one row for each log. The row is compared and replaced in one transaction, before the cosignature is returned: so there
are no two cosignatures that contradict each other, whatever the log sends and however often. `WitnessClient` is the log's side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

import httpx2
from sqlalchemy import BigInteger, Column, Connection, LargeBinary, String, Table, Text, insert, select, update

from graph_agent.db import Database, new_metadata
from graph_agent.ports import Clock
from graph_agent.tlog.checkpoint import Checkpoint, decimal, hash_lines, parse_hashes
from graph_agent.tlog.merkle import EMPTY_ROOT, is_consistent
from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey, open_note, split_note

MAX_REQUEST_BYTES = 64 * 1024
SIZE_TYPE = "text/x.tlog.size"
SECONDS = 10.0
"""The time limit of a request to a witness."""

_metadata = new_metadata()
_latest = Table(
    "witnessed_checkpoints",
    _metadata,
    Column("origin", String(255), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("root", LargeBinary(32), nullable=False),
    # As it is served: signed by the log and by this witness.
    Column("note", Text, nullable=False),
)


class RefusedError(Exception):
    """A checkpoint that is not cosigned, with the HTTP status that the protocol has for the reason."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


class SizeConflictError(RefusedError):
    """The log's old checkpoint is not the last one that was cosigned; the text is the size of that one."""


def open_witness_state(database: Database) -> Database:
    """Create the table of a witness, unless it exists."""
    database.write_now(_metadata.create_all)
    return database


def origin_digest(origin: str) -> str:
    """Return the part of a path by which a witness serves the checkpoint of a log."""
    return hashlib.sha256(origin.encode()).hexdigest()


class Witness:
    """The witness of some logs, each known by the keys that have its origin as their name."""

    def __init__(self, database: Database, key: SigningKey, logs: Sequence[VerifierKey], *, clock: Clock) -> None:
        self._database, self._key, self._logs, self._clock = database, key, logs, clock

    async def add_checkpoint(self, request: bytes) -> str:
        """Return the cosignature line for a request: old size, consistency proof, checkpoint. Raises `RefusedError`."""
        try:
            head, _, note = request.decode().partition("\n\n")
            old_line, *proof_lines = head.split("\n")
            old, proof = decimal(old_line.removeprefix("old ")), parse_hashes(proof_lines)
            if not old_line.startswith("old "):
                raise NoteError("it has no old size")
            split_note(note)
        except (NoteError, UnicodeDecodeError) as exc:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"the request is malformed: {exc}") from None
        checkpoint, signed = self._authenticate(note)
        if old > checkpoint.size:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "the old size is larger than that of the checkpoint")
        text = checkpoint.to_text()

        def replace(connection: Connection) -> str:
            # Locked until the commit: two requests that continue the same checkpoint in two ways must not both be signed.
            latest = select(_latest.c.size, _latest.c.root).where(_latest.c.origin == checkpoint.origin).with_for_update()
            row = connection.execute(latest).one_or_none()
            size, root = (0, EMPTY_ROOT) if row is None else row
            if size != old or (size == checkpoint.size and root != checkpoint.root):
                raise SizeConflictError(HTTPStatus.CONFLICT, str(size))
            if not is_consistent(old, checkpoint.size, root, checkpoint.root, proof):
                raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, "the consistency proof does not verify")
            line = self._key.signature_line(text, self._clock.now().timestamp())
            values = {"size": checkpoint.size, "root": checkpoint.root, "note": f"{text}\n{signed}{line}"}
            if row is None:
                connection.execute(insert(_latest), {"origin": checkpoint.origin, **values})
            else:
                connection.execute(update(_latest).where(_latest.c.origin == checkpoint.origin), values)
            return line

        return await self._database.write(replace)

    async def latest(self, digest: str) -> str | None:
        """Return the last cosigned checkpoint of the log with this `origin_digest`, None if there is none."""
        rows = await self._database.read(lambda connection: connection.execute(select(_latest.c.origin, _latest.c.note)).all())
        return next((row.note for row in rows if origin_digest(row.origin) == digest), None)

    def _authenticate(self, note: str) -> tuple[Checkpoint, str]:
        """Return the checkpoint, and the lines by which the log has signed it."""
        origin = note.partition("\n")[0]
        keys = [key for key in self._logs if key.name == origin]
        if not keys:
            raise RefusedError(HTTPStatus.NOT_FOUND, "the log is unknown to this witness")
        try:
            text, _ = open_note(note, keys)
        except NoteError as exc:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"the checkpoint is not signed by the log: {exc}") from None
        try:
            checkpoint = Checkpoint.parse(text)
        except NoteError as exc:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"the checkpoint is malformed: {exc}") from None
        return checkpoint, "".join(f"{line}\n" for line in split_note(note)[1] if line.split(" ")[1] == origin)


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
