"""Signed notes (c2sp.org/signed-note) with the Ed25519 signatures of logs and the cosignatures of witnesses.

    tasks.example/log                             the text
    4211
    4ZyvIVOU7xH+PZQNJJGgcQT7eB4+JTMAuvIJ8ZQZnXw=

    — tasks.example/log Az3grl…                   signatures, each with the name and the id of its key
    — witness.example/w1 jWbPPwAA…

Signatures of other keys and of other types, as of post-quantum ones, are ignored: a note can have lines of both.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_SIGNATURES = 100
_DASH = "\N{EM DASH} "
_KEY_BYTES = 32
_TIME_BYTES = 8


class NoteError(ValueError):
    """A key, a note or a proof that is malformed, or whose signature is invalid. The message may be shown."""


class KeyType(IntEnum):
    """The byte before a public key, which says what its signatures mean."""

    LOG = 1
    """An Ed25519 signature of the text."""
    COSIGNATURE = 4
    """An Ed25519 signature of a time and the text (c2sp.org/tlog-cosignature): the checkpoint fits all earlier ones."""


def encode(data: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    """Return the bytes of canonical base64. Raises `NoteError`."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise NoteError("it contains invalid base64") from None
    if encode(data) != text:
        raise NoteError("it contains base64 that is not canonical")
    return data


@dataclass(frozen=True)
class VerifierKey:
    """A public key with its name, written as `NAME+ID+BASE64`. The name of a log's key is the log's origin."""

    name: str
    kind: KeyType
    public: bytes

    def __post_init__(self) -> None:
        if not self.name or "+" in self.name or any(character.isspace() for character in self.name):
            raise NoteError("the name of a key must not be empty or contain spaces or '+'")
        if len(self.public) != _KEY_BYTES:
            raise NoteError("the key does not have 32 bytes")

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Raises `NoteError`."""
        name, key_id, (kind, public) = _key_parts(text.split("+", 2))
        return _with_id(cls(name, kind, public), key_id)

    @property
    def id(self) -> bytes:
        """The four bytes that a signature names its key by."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encode(bytes([self.kind]) + self.public)}"

    def signed_at(self, text: bytes, signature: bytes) -> int | None:
        """Return the time of a valid signature of `text` as a POSIX time, 0 if it has none; None if it is invalid."""
        at = 0
        if self.kind is KeyType.COSIGNATURE:
            at, signature = int.from_bytes(signature[:_TIME_BYTES], "big"), signature[_TIME_BYTES:]
            text = _cosigned(at, text)
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text)
        except InvalidSignature:
            return None
        return at


@dataclass(frozen=True)
class SigningKey:
    """A private key, written as `PRIVATE+KEY+NAME+ID+BASE64`."""

    verifier: VerifierKey
    private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, name: str, kind: KeyType, private: Ed25519PrivateKey) -> SigningKey:
        """Raises `NoteError` if the name cannot be that of a key."""
        return cls(VerifierKey(name, kind, private.public_key().public_bytes_raw()), private)

    @classmethod
    def generate(cls, name: str, kind: KeyType) -> SigningKey:
        """Return a new key. Raises `NoteError` if the name cannot be that of a key."""
        return cls.of(name, kind, Ed25519PrivateKey.generate())

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """Raises `NoteError`, whose message does not contain the key."""
        if not text.startswith("PRIVATE+KEY+"):
            raise NoteError("it is not a signing key (PRIVATE+KEY+NAME+ID+BASE64)")
        name, key_id, (kind, private) = _key_parts(text.split("+", 4)[2:])
        found = cls.of(name, kind, Ed25519PrivateKey.from_private_bytes(private))
        _with_id(found.verifier, key_id)
        return found

    def to_text(self) -> str:
        """Return the key as `parse` takes it."""
        key, private = self.verifier, self.private.private_bytes_raw()
        return f"PRIVATE+KEY+{key.name}+{key.id.hex()}+{encode(bytes([key.kind]) + private)}"

    def signature_line(self, text: str, at: float | None = None) -> str:
        """Return the line that signs `text`; a cosignature says that the text was seen `at` this POSIX time (default: now)."""
        signed, stamp = text.encode(), b""
        if self.verifier.kind is KeyType.COSIGNATURE:
            seconds = int(time.time() if at is None else at)
            signed, stamp = _cosigned(seconds, signed), seconds.to_bytes(_TIME_BYTES, "big")
        return f"{_DASH}{self.verifier.name} {encode(self.verifier.id + stamp + self.private.sign(signed))}\n"


def sign(text: str, keys: Sequence[SigningKey]) -> str:
    """Return the note: `text`, which ends with a line break, signed with each key."""
    return f"{text}\n{''.join(key.signature_line(text) for key in keys)}"


def open_note(note: str, keys: Collection[VerifierKey]) -> tuple[str, dict[VerifierKey, int]]:
    """Return the text, and those of `keys` that have signed it, each with the POSIX time of its signature (0 for none).

    Raises `NoteError` if the note is malformed, none of the keys has signed it, or the signature of one is invalid.
    """
    text, lines = split_note(note)
    signed: dict[VerifierKey, int] = {}
    for line in lines:
        name, signature = _signature(line)
        for key in keys:
            if (key.name, key.id) != (name, signature[:4]):
                continue
            at = key.signed_at(text.encode(), signature[4:])
            if at is None:
                raise NoteError(f"the signature of {name} is invalid")
            signed.setdefault(key, at)
    if not signed:
        raise NoteError("it is not signed with a known key")
    return text, signed


def split_note(note: str) -> tuple[str, list[str]]:
    """Return the text and the signature lines without their line breaks. Raises `NoteError`."""
    text, separator, signatures = note.rpartition("\n\n")
    lines = signatures.split("\n")
    try:
        note.encode()
    except UnicodeEncodeError:
        raise NoteError("it is not UTF-8") from None
    if not separator or lines.pop() or not 0 < len(lines) <= MAX_SIGNATURES or any(c < " " and c != "\n" for c in note):
        raise NoteError("it is not a signed note")
    return f"{text}\n", lines


def first_signer(note: str) -> tuple[str, bytes]:
    """Return the name and the id of the key that has signed a note first. Raises `NoteError`."""
    name, signature = _signature(split_note(note)[1][0])
    return name, signature[:4]


def _signature(line: str) -> tuple[str, bytes]:
    """Return the name of the key, and its id with the signature."""
    name, separator, signature = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not name or "+" in name or not separator or len(raw := decode(signature)) < 5:
        raise NoteError("a signature line is malformed")
    return name, raw


def _key_parts(parts: Sequence[str]) -> tuple[str, str, tuple[KeyType, bytes]]:
    if len(parts) != 3:
        raise NoteError("it is not a key (NAME+ID+BASE64)")
    raw = decode(parts[2])
    if len(raw) != 1 + _KEY_BYTES or raw[0] not in tuple(KeyType):
        raise NoteError("the type of the key is not supported")
    return parts[0], parts[1], (KeyType(raw[0]), raw[1:])


def _with_id(key: VerifierKey, key_id: str) -> VerifierKey:
    if key.id.hex() != key_id:
        raise NoteError("the id of the key is not that of the key")
    return key


def _cosigned(at: int, text: bytes) -> bytes:
    return f"cosignature/v1\ntime {at}\n".encode() + text
