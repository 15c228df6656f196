"""Files that only their owner can read, and that are complete or do not exist; and locks for changing them."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replace_private_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file (mode 0600) that takes the place of `path`, on the disk, at the end of the block.

    If the block raises, `path` is unchanged. Raises OSError.
    """
    # Another process may replace this file, or another one of the folder, at the same time.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Let one process or thread at a time into this block, by a lock on the file beside `path`. Raises OSError."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
