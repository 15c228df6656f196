"""What is left of a run of the tests that a signal ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run_folder import ROOT

TEST = """
import os, subprocess, sys
from pathlib import Path
from tests.fork_server import python
from tests.run_folder import VARIABLE

def test_that_waits(postgresql_url):
    folder = os.environ[VARIABLE]
    command = ["-c", "print('started', flush=True); input()", folder]
    children = [
        subprocess.Popen([program, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for program in (python(), sys.executable)
    ]
    for child in children:
        child.stdout.readline()
    Path({pipe!r}).write_text(folder)
    for child in children:
        child.wait()
"""
"""A test with a fork and a process of its own. It writes into a named pipe when they run."""


def processes_of(folder: str) -> list[str]:
    """Return the command lines of the services of a run, of their forks and of PostgreSQL."""
    listed = subprocess.run(["ps", "axww", "-o", "args="], stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if folder in line]


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("processes", "ending"),
    [
        pytest.param("-n1", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("-n1", signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param("-n1", signal.SIGINT, marks=pytest.mark.nightly),
        *(pytest.param("-n0", ending, marks=pytest.mark.nightly) for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_a_run_that_a_signal_ends_leaves_no_process_and_no_folder_behind(
    tmp_path: Path, ending: signal.Signals, processes: str
) -> None:
    test, pipe = tmp_path / "test_that_waits.py", tmp_path / "pipe"
    os.mkfifo(pipe)
    test.write_text(TEST.format(pipe=str(pipe)), encoding="utf-8")
    options = [processes, "-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *map(str, options), str(test)]
    # In a group of its own, to which a terminal would send Ctrl-C; a shell lets what it starts in the background ignore that.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as run:
        # It is opened when the test writes.
        folder = pipe.read_text(encoding="utf-8")
        assert Path(folder).is_dir()
        # The fork server, the fork, the other process, PostgreSQL and the process that ends it.
        assert len(processes_of(folder)) >= 5
        if ending is signal.SIGINT:
            os.killpg(run.pid, ending)
        else:
            run.send_signal(ending)
    # The limit only ends a test that would fail anyway.
    ends = time.monotonic() + 240
    while (processes_of(folder) or Path(folder).exists()) and time.monotonic() < ends:
        time.sleep(0.1)
    assert processes_of(folder) == []
    assert not Path(folder).exists()
