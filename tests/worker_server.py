"""Starts the processes of pytest-xdist as forks of one that has imported the tests, and the server of commands with them.

Importing the tests and what they use takes longer than most tests, and each process would do it again.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.config import _prepareconfig  # pytest-xdist prepares its processes by it; it has no public name

from tests import fork_server
from tests.run_folder import ROOT, connect

STARTS_THREADS = ("tests/test_helm.py",)
"""Tests whose libraries start threads when they are imported, which a fork does not have: Helm's, in Go."""


def test_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            if file.is_relative_to(ROOT) and not file.relative_to(ROOT).as_posix().startswith(STARTS_THREADS):
                yield file


def serve(folder: Path, paths: Sequence[Path]) -> Callable[[], object] | None:
    """Write the commands and the one that starts processes of pytest-xdist; serve them until the run of the tests ends."""
    # Before all imports, so that assertions explain themselves.
    config = _prepareconfig(["--capture=no", *map(str, paths)])
    fork_server.import_everything()
    # Before the fork, so that the tests find the commands, and none starts another server of them.
    commands = fork_server.open_commands(folder)
    if not os.fork():
        # Only the other process prints a line, and the reader of it notices if that process ends.
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
        return fork_server.serve(folder, commands)
    commands.close()
    import_tests(paths)
    config._ensure_unconfigure()  # noqa: SLF001 (pytest-xdist has no other way)
    listener, programs = fork_server.write_programs(folder, "workers", ["python"])
    print(programs / "python", flush=True)
    # A process of pytest-xdist ends by itself, with what its test has started, when the process that started it has ended.
    return fork_server.ForkServer(listener, connect(folder), kills=False).run()


def count_threads() -> int:
    """Return the number of threads of this process, with those that libraries have started if the system lists them."""
    tasks = Path("/proc/self/task")
    return sum(1 for _ in tasks.iterdir()) if tasks.is_dir() else threading.active_count()


def import_tests(paths: Sequence[Path]) -> None:
    for file in test_files(paths):
        try:
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):
            continue  # The process that runs the tests of the file reports it.
        assert count_threads() == 1, f"importing {file} starts a thread, which a fork does not have"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    fork_server.run_service(lambda folder: serve(folder, [Path(path) for path in sys.argv[2:]]))
