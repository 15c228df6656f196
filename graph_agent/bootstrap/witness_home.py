"""The home of a witness: its key, and the keys of the logs that it cosigns."""

from __future__ import annotations

import secrets
from pathlib import Path

from graph_agent.bootstrap.secret import key_file
from graph_agent.errors import ConfigurationError
from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey


def witness_key(home: Path, name: str | None = None) -> SigningKey:
    """Return the key of the witness in `home`, which is created with this name if there is none.

    Raises `ConfigurationError`, and `NoteError` for a name that no key can have.
    """
    new = SigningKey.generate(name or f"witness-{secrets.token_hex(4)}", KeyType.COSIGNATURE)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f"the folder {home} cannot be created: {exc.strerror}") from None
    return key_file(home / "witness.key", new)[0]


def remembered_logs(home: Path) -> list[VerifierKey]:
    """Return the keys of the logs that the witness in `home` was made for. Raises `ConfigurationError`."""
    file = _logs(home)
    try:
        return [VerifierKey.parse(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, NoteError) as exc:
        raise ConfigurationError(f"the file {file} cannot be read: {exc}") from None


def remember_log(home: Path, key: VerifierKey) -> None:
    """Let the witness in `home` cosign the log with this key. Raises `ConfigurationError`."""
    if key in remembered_logs(home):
        return
    try:
        with _logs(home).open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")
    except OSError as exc:
        raise ConfigurationError(f"the file {_logs(home)} cannot be written: {exc.strerror}") from None


def _logs(home: Path) -> Path:
    return home / "witness.logs"
