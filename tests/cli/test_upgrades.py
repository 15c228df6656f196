"""Databases that earlier versions have written: they open, replay, and are backed up, restored and verified.

Each archive in `upgrades/` is the home of one version, in which the embedded model was asked for two tasks, for the list, and
for a deletion that was left open. It is named by what that version had that the one before it did not.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

ARCHIVES = sorted((Path(__file__).parent / "upgrades").glob("*.tar.xz"))
SECRET = "0123456789abcdef0123456789abcdef"
TASKS = ["1. [ ] buy milk", "2. [ ] call mom"]


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("archive", ARCHIVES, ids=[archive.name.split(".")[0] for archive in ARCHIVES])
def test_a_database_of_an_earlier_version_opens_and_is_backed_up_and_restored(
    archive: Path, cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_SECRET", SECRET)
    # The decisions of the archives are never too old.
    monkeypatch.setenv("GRAPH_AGENT_RETENTION_DAYS", "36500")
    shutil.rmtree(home)
    home.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")

    def works(decisions: int) -> None:
        verified = cli("log", "verify")
        assert (verified.code, verified.out.split(",")[0]) == (0, f"intact: {decisions} records")
        replayed = cli("replay", "--all")
        assert (replayed.code, replayed.out.strip()) == (0, f"{decisions} of {decisions} identical")
        asked = cli("ask", "show my tasks")
        assert (asked.code, asked.out.splitlines()[1:]) == (0, TASKS)

    works(4)
    backup = tmp_path / "backup.db"
    assert cli("db", "copy", f"sqlite:///{home}/graph_agent.db", f"sqlite:///{backup}").code == 0
    key = (home / "log.key").read_bytes()
    shutil.rmtree(home)
    home.mkdir()
    (home / "log.key").write_bytes(key)
    (home / "log.key").chmod(0o600)
    shutil.copy(backup, home / "graph_agent.db")
    works(5)
