"""The folder of one run of the tests, and the services that all its test processes share.

The process that runs the tests listens on a socket in the folder. Each service is connected to it, and ends when the connection
ends: so nothing outlives the run, not even one that is killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
VARIABLE = "TESTS_RUN_FOLDER"
MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 2**32
"""Several times what a run needs."""
_LIFELINE = "lifeline"

_started: list[subprocess.Popen[str]] = []


def use_memory() -> None:
    """Let this process and those that it starts create temporary files in memory, if there is room for them.

    SQLite waits for the disk in each commit, which on a busy machine takes longer than most tests.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    # In a container it may be small, and without permission to execute files.
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= _MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make the folder, which this process and those that it starts find in the environment; end the services at the end."""
    # The path is short because the path of a unix socket is limited to 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="tests-"))
    # PostgreSQL runs as another user if the tests run as root.
    folder.chmod(0o755)
    outer = os.environ.get(VARIABLE)
    with socket.socket(socket.AF_UNIX) as lifeline:
        lifeline.bind(str(folder / _LIFELINE))
        lifeline.listen(100)
        os.environ[VARIABLE] = str(folder)
        try:
            yield folder
        finally:
            os.environ.pop(VARIABLE)
            if outer is not None:
                os.environ[VARIABLE] = outer
    for service in _started:
        service.wait()
    shutil.rmtree(folder, ignore_errors=True)


def ready_file(folder: Path, module: str) -> Path:
    """Return the file with the line that a service printed when it was ready."""
    return folder / f"{module}.ready"


def service(module: str, *arguments: str) -> str:
    """Return the line that a service prints when it is ready. The first test process that asks for it starts it."""
    folder = Path(os.environ[VARIABLE])
    ready = ready_file(folder, module)
    with (folder / f"{module}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            # In a session of its own, so that Ctrl-C does not end it before the processes that it has started.
            started = subprocess.Popen(
                [sys.executable, "-m", module, str(folder), *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            _started.append(started)
            assert started.stdout is not None
            with started.stdout as printed:
                line = printed.readline().strip()
            assert line, f"{module} has not started"
            ready.write_text(line, encoding="utf-8")
        return ready.read_text(encoding="utf-8")


def connect(folder: Path) -> socket.socket:
    """Return a connection that is readable when the run ends."""
    lifeline = socket.socket(socket.AF_UNIX)
    lifeline.connect(str(folder / _LIFELINE))
    return lifeline


def wait_for_the_end(folder: Path) -> None:
    with connect(folder) as lifeline, suppress(ConnectionError):
        lifeline.recv(1)
