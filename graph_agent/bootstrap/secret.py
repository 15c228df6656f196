"""The key that signs confirmations: GRAPH_AGENT_SECRET, else a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from graph_agent.record.chain import derive_chain_key
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

_MODE = 0o600
_BYTES = 32


def signing_key(settings: Settings) -> bytes:
    """The key; the first process to need the file makes it, all others read that one. Raises `ConfigurationError`."""
    if settings.secret is not None:
        return settings.secret.get_secret_value().encode()
    if settings.authenticates:
        raise ConfigurationError("GRAPH_AGENT_SECRET is required with bearer tokens")
    path = secret_file(settings)
    try:
        return read_secret(path)
    except FileNotFoundError:
        _make(path)
        return read_secret(path)


def chain_key(settings: Settings) -> bytes:
    """The key that seals the log, made from `signing_key`. Raises `ConfigurationError`."""
    return derive_chain_key(signing_key(settings))


def secret_file(settings: Settings) -> Path:
    """Where the key lies when the environment has none."""
    return settings.home / "secret"


def read_secret(path: Path) -> bytes:
    """The key in a file. Raises `FileNotFoundError`, and `ConfigurationError` for a file that others can read or that holds
    no key."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = file.read().strip()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigurationError(f"the key file {path} cannot be read") from exc
    if mode & 0o077:
        raise ConfigurationError(f"others can read the key file {path}: run chmod 600 {path}")
    if len(key) < _BYTES:
        raise ConfigurationError(f"the key file {path} holds no key: delete it, and a new one is made")
    return key


def _make(path: Path) -> None:
    """Write a new key beside `path` and link it there: whoever comes second keeps the first one's, whole."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_hex(_BYTES).encode())
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as exc:
        raise ConfigurationError(f"the key file {path} cannot be written") from exc
