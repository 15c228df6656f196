"""The tree of the record with its keys, its witnesses and the file of its head, as the settings say.

The files of the home are `log.key`, `log.witnesses`, and the head twice: `log.head` (with DATABASE_URL `log-DIGEST.head`)
belongs to the address of a database, and `log-DIGEST.head` to the log itself, by its key and its first leaf, which a copy of
the database under another address has, too. A database in memory has none of them.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from graph_agent.bootstrap.secret import key_file, record_keys
from graph_agent.db import Database
from graph_agent.db.private_file import lock_file, replace_private_file
from graph_agent.errors import ConfigurationError, RecordRolledBackError, ServiceError
from graph_agent.ports import Clock
from graph_agent.record.tree.service import RecordTree
from graph_agent.settings import Settings
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey
from graph_agent.tlog.witness import WitnessClient

_log = logging.getLogger(__name__)

_IN_MEMORY = "sqlite://"


def record_tree(settings: Settings, database: Database, clock: Clock) -> RecordTree:
    """Return the tree of the record in `database`. Raises `ConfigurationError`."""
    in_memory, keys = settings.database == _IN_MEMORY, log_keys(settings)
    return RecordTree(
        database,
        keys,
        key=record_keys(settings),
        clock=clock,
        head=None if in_memory else log_file(settings, "head"),
        head_of_copies=None if in_memory else lambda leaf: _head_of(settings, f"{keys.origin} {leaf}"),
        # No witness may know a log that ends with its process.
        witnesses=[] if in_memory else _witnesses(settings),
    )


async def seal_if_possible(tree: RecordTree) -> None:
    """Seal what waits. If that is not possible it goes on waiting, and `log verify` says why."""
    try:
        await tree.seal()
    except ServiceError as exc:
        _log.warning("the log is sealed later: %s", exc)
    except RecordRolledBackError as exc:
        _log.error("the log is not sealed: %s", exc)


async def rotate_key(settings: Settings, database: Database, clock: Clock) -> VerifierKey:
    """Put a new key before those in the key file, and sign the log with it; return its public part.

    Raises `ConfigurationError` if the keys are not in the file.
    """
    if settings.log_signing_keys:
        raise ConfigurationError("the keys are in LOG_SIGNING_KEY: put a new one before them there")
    file = log_file(settings, "key")
    with lock_file(file):
        keys = log_keys(settings)
        new = SigningKey.generate(keys.origin, KeyType.LOG)
        with replace_private_file(file) as draft:
            draft.write("".join(f"{key.to_text()}\n" for key in (new, *keys.all)).encode())
    # Before the old key may be removed from the file.
    await record_tree(settings, database, clock).seal()
    return new.verifier


def add_witness(settings: Settings, witness: WitnessClient) -> None:
    """Add a witness to the file of witnesses. Raises `ConfigurationError`."""
    try:
        with log_file(settings, "witnesses").open("a", encoding="utf-8") as file:
            file.write(f"{witness.url} {witness.key}\n")
    except OSError as exc:
        raise ConfigurationError(f"the file {log_file(settings, 'witnesses')} cannot be written: {exc.strerror}") from None


def log_file(settings: Settings, kind: str) -> Path:
    """Return the path of a file of the log: its `key`, its `head` or its `witnesses`."""
    if kind != "head" or not settings.database_url:
        return settings.home / f"log.{kind}"
    # Without the password, which may change.
    parts = urlsplit(settings.database_url)
    if parts.scheme.startswith("sqlite"):
        # The same path is another file in another folder.
        return _head_of(settings, str(Path(parts.path.removeprefix("/")).resolve()))
    return _head_of(settings, f"{(parts.hostname or '').lower()}:{parts.port or ''}{parts.path}")


def _head_of(settings: Settings, name: str) -> Path:
    return settings.home / f"log-{hashlib.sha256(name.encode()).hexdigest()[:8]}.head"


def log_keys(settings: Settings) -> LogKeys:
    """Return the keys that sign the log; the first process creates the file. Raises `ConfigurationError`."""
    try:
        if settings.log_signing_keys:
            return LogKeys([_signing_key(key.get_secret_value(), settings.log_origin) for key in settings.log_signing_keys])
        new = SigningKey.generate(settings.log_origin or f"log-{secrets.token_hex(8)}", KeyType.LOG)
    except NoteError as exc:
        raise ConfigurationError(f"LOG_ORIGIN or LOG_SIGNING_KEY: {exc}") from None
    return LogKeys([new] if settings.database == _IN_MEMORY else key_file(log_file(settings, "key"), new))


def _signing_key(text: str, origin: str | None) -> SigningKey:
    """Return the key of LOG_SIGNING_KEY: a line of a key file, or a random text, from which the key is derived.

    Raises `NoteError`.
    """
    if text.startswith("PRIVATE+KEY+"):
        return SigningKey.parse(text)
    if len(text) < 32:
        raise NoteError("it must be a line of a key file, or a random text of at least 32 characters")
    seed = hashlib.sha256(f"graph-agent log key {text}".encode("utf-8", "surrogateescape")).digest()
    private = Ed25519PrivateKey.from_private_bytes(seed)
    # The same name in all processes that have the key.
    name = origin or f"log-{hashlib.sha256(private.public_key().public_bytes_raw()).hexdigest()[:16]}"
    return SigningKey.of(name, KeyType.LOG, private)


def _witnesses(settings: Settings) -> list[WitnessClient]:
    file = log_file(settings, "witnesses")
    try:
        lines = [*settings.log_witnesses, *(file.read_text(encoding="utf-8").splitlines() if file.exists() else [])]
        return list(dict.fromkeys(map(WitnessClient.parse, lines)))
    except (NoteError, OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the witnesses of the log cannot be read: {exc}") from None
