"""Files of the home that are replaced as a whole."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from graph_agent.db.private_file import replace_private_file


def test_files_that_are_replaced_at_the_same_time_keep_their_own_contents(tmp_path: Path) -> None:
    """The head and the key of a log have the same name but for its ending."""
    with (
        replace_private_file(tmp_path / "log.head") as first,
        replace_private_file(tmp_path / "log.key") as key,
        replace_private_file(tmp_path / "log.head") as last,
    ):
        first.write(b"old")
        key.write(b"secret")
        last.write(b"new head")
    contents = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    # The outer block ends last.
    assert contents == {"log.head": b"old", "log.key": b"secret"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_a_block_that_raises_leaves_the_file_as_it_was_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "log.head").write_bytes(b"head")
    with pytest.raises(ValueError, match="closed file"), replace_private_file(tmp_path / "log.head") as file:
        file.close()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"log.head": b"head"}
