"""Files that only their owner can read, and that are complete or do not exist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replace_private_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file (mode 0600) that takes the place of `path`, on the disk, at the end of the block.

    If the block raises, `path` is unchanged. Raises OSError.
    """
    unfinished = path.with_suffix(".unfinished")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
