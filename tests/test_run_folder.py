"""What is left of a run of the tests that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run_folder import ROOT

TEST = """
import os, subprocess
from tests.fork_server import python
from tests.run_folder import VARIABLE

def test_that_waits(postgresql_url):
    command = [python(), "-c", "print('started', flush=True); input()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    print("folder", os.environ[VARIABLE], flush=True)
    child.wait()
"""


def processes_of(folder: str) -> list[str]:
    """Return the command lines of the services of a run, of their forks and of PostgreSQL."""
    listed = subprocess.run(["ps", "axww", "-o", "args="], stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if folder in line]


@pytest.mark.postgresql
def test_a_run_that_is_killed_leaves_no_process_and_no_folder_behind(tmp_path: Path) -> None:
    test = tmp_path / "test_that_waits.py"
    test.write_text(TEST, encoding="utf-8")
    options = ["-s", "-n0", "-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *map(str, options), str(test)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        printed = []
        for line in run.stdout:
            printed.append(line)
            if "folder " in line:
                break
        folder = printed[-1].rpartition("folder ")[2].strip()
        assert Path(folder).is_dir(), "".join(printed)
        # The fork server, the fork, PostgreSQL and the process that ends it.
        assert len(processes_of(folder)) >= 4
        run.kill()
    # The limit only ends a test that would fail anyway.
    ends = time.monotonic() + 120
    while (processes_of(folder) or Path(folder).exists()) and time.monotonic() < ends:
        time.sleep(0.1)
    assert processes_of(folder) == []
    assert not Path(folder).exists()
