"""The files of the home folder that only their owner can read: the keys, and the token of the local clients.

The keys sign confirmations: GRAPH_AGENT_SECRET, else a file. The first key signs. The previous ones, from
GRAPH_AGENT_PREVIOUS_SECRETS and from further lines of the file, only verify.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pydantic import SecretStr

from graph_agent.db.private_file import replace_private_file
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings
from graph_agent.tlog.note import NoteError, SigningKey

_BYTES = 32
_HEADER = "Authorization: Bearer "


def signing_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys. The first process creates the file, all others read it. Raises `ConfigurationError`."""
    previous = tuple(map(_bytes, settings.previous_secrets))
    if settings.secret is not None:
        return (_bytes(settings.secret), *previous)
    if settings.authenticates:
        raise ConfigurationError("GRAPH_AGENT_SECRET is required with bearer tokens")
    return (*_read_or_create(secret_file(settings), secrets.token_hex(_BYTES)), *previous)


def launch_token(settings: Settings) -> str:
    """Return the token that a server without sign-in requires. The first server creates the file, all others read it.

    Raises `ConfigurationError`.
    """
    (line, *_) = _read_or_create(token_file(settings), f"{_HEADER}{secrets.token_urlsafe(_BYTES)}\n")
    return line.decode(errors="replace").removeprefix(_HEADER)


def token_file(settings: Settings) -> Path:
    """Return the path of the launch token.

    The file is the header that clients send, as `curl -H @FILE` takes it: every account of a machine can read the command lines
    of the others, so the token must not be an argument.
    """
    return settings.home / "authorization"


def derive_record_key(secret: bytes) -> bytes:
    """Derive the key of the MACs from the secret that signs confirmations; neither reveals the other."""
    return hmac.new(secret, b"graph-agent record chain", sha256).digest()


def record_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys of the MACs of the log, derived from `signing_keys`. Raises `ConfigurationError`."""
    return tuple(map(derive_record_key, signing_keys(settings)))


def key_file(path: Path, new: SigningKey) -> list[SigningKey]:
    """Return the signing keys in a file, one on each line; it is created with `new` if it does not exist.

    Raises `ConfigurationError`.
    """
    try:
        return [SigningKey.parse(line.decode()) for line in _read_or_create(path, f"{new.to_text()}\n")]
    except (NoteError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the key file {path} cannot be read: {exc}") from None


def secret_file(settings: Settings) -> Path:
    """Return the path of the key file, used if GRAPH_AGENT_SECRET is not set."""
    return settings.home / "secret"


def read_secrets(path: Path) -> list[bytes]:
    """Return the keys in a file, one on each line.

    Raises `FileNotFoundError`, and `ConfigurationError` if other users can read the file or it contains no key.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            keys = [line.strip() for line in file.read().strip().splitlines()]
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigurationError(f"the key file {path} cannot be read") from exc
    if mode & 0o077:
        raise ConfigurationError(f"others can read the key file {path}: run chmod 600 {path}")
    if not keys or min(map(len, keys)) < _BYTES:
        raise ConfigurationError(f"the key file {path} contains no key: delete it, and a new one is created")
    return keys


def _bytes(secret: SecretStr) -> bytes:
    """Return the bytes of a variable, which need not be UTF-8."""
    return secret.get_secret_value().encode("utf-8", "surrogateescape")


def _read_or_create(path: Path, text: str) -> list[bytes]:
    """Return the lines of a file, which is written with `text` if there is none."""
    try:
        return read_secrets(path)
    except FileNotFoundError:
        _create(path, text)
    return read_secrets(path)


def _create(path: Path, text: str) -> None:
    """Write a new key next to `path` and link it there, so that a second process keeps the first one's key."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replace_private_file(draft) as file:
            file.write(text.encode())
        try:
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
    except OSError as exc:
        raise ConfigurationError(f"the key file {path} cannot be written") from exc
