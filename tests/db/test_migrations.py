"""Migrations of several packages in one database, also at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect

from graph_agent.db import Database, migrate
from graph_agent.db.migrations import installed_revision, newest_revision
from graph_agent.errors import ConfigurationError
from tests import fork_server

CREATE = """
import sqlalchemy as sa

metadata = sa.MetaData()
sa.Table("{owner}_things", metadata, sa.Column("id", sa.Integer, primary_key=True))

create = metadata.create_all
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None


def upgrade() -> None:
    op.add_column("{owner}_things", sa.Column("more", sa.String(10)))
    {then}
"""


@pytest.fixture
def owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with two packages that have migrations."""
    for owner in ("cats", "dogs"):
        versions = tmp_path / owner / "migrations" / "versions"
        versions.mkdir(parents=True)
        (tmp_path / owner / "__init__.py").touch()
        (tmp_path / owner / "migrations" / "__init__.py").write_text(CREATE.format(owner=owner))
        for module in (owner, f"{owner}.migrations"):
            # The last test's packages had the same names.
            monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def tables(connection: Connection) -> dict[str, list[str]]:
    inspector = inspect(connection)
    return {name: [column["name"] for column in inspector.get_columns(name)] for name in sorted(inspector.get_table_names())}


def test_two_owners_share_one_database(owners: Path, database: Database, capfd: pytest.CaptureFixture[str]) -> None:
    del owners
    migrate(database, "cats")
    migrate(database, "dogs")
    assert database.read_now(tables) == {
        "cats_things": ["id"],
        "cats_schema": ["version_num"],
        "dogs_things": ["id"],
        "dogs_schema": ["version_num"],
    }
    assert capfd.readouterr() == ("", "")


def test_a_later_migration_runs_after_an_earlier_one(owners: Path, database: Database) -> None:
    migrate(database, "cats")
    (owners / "cats/migrations/versions/0002_more.py").write_text(SECOND.format(owner="cats", then=""))
    migrate(database, "cats")
    migrate(database, "cats")
    assert database.read_now(tables)["cats_things"] == ["id", "more"]
    assert installed_revision(database, "cats") == "0002"


def test_a_new_database_runs_no_migration(owners: Path, database: Database) -> None:
    (owners / "cats/migrations/versions/0002_more.py").write_text(SECOND.format(owner="cats", then="1 / 0"))
    migrate(database, "cats")
    assert installed_revision(database, "cats") == "0002"


def test_a_failed_migration_is_rolled_back(owners: Path, database: Database) -> None:
    migrate(database, "cats")
    (owners / "cats/migrations/versions/0002_more.py").write_text(SECOND.format(owner="cats", then="1 / 0"))
    with pytest.raises(ZeroDivisionError):
        migrate(database, "cats")
    assert database.read_now(tables)["cats_things"] == ["id"]
    assert installed_revision(database, "cats") == "0001"


def test_tables_that_cannot_be_created_leave_nothing(owners: Path, database: Database) -> None:
    with (owners / "cats/migrations/__init__.py").open("a") as file:
        file.write("\n\ndef create(connection):\n    metadata.create_all(connection)\n    1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        migrate(database, "cats")
    assert database.read_now(tables) == {}


def test_an_up_to_date_database_does_not_import_alembic(owners: Path, database: Database, database_url: str) -> None:
    migrate(database, "cats")
    script = (
        f"import sys; sys.path.insert(0, {str(owners)!r})\n"
        "from graph_agent.db import Database, migrate\n"
        f"database = Database.open({database_url!r})\n"
        "migrate(database, 'cats')\n"
        "database.close_now()\n"
        "assert not any(name.startswith('alembic') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_two_processes_that_start_together_migrate_once(owners: Path, database_url: str) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(owners)!r})\n"
        "from graph_agent.db import Database, migrate\n"
        f"database = Database.open({database_url!r})\n"
        "sys.stdin.readline()\n"
        "migrate(database, 'cats')\n"
        "database.close_now()\n"
    )
    children = [
        subprocess.Popen([fork_server.python(), "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * 2


def test_the_newest_revision_is_read_from_the_file_names(owners: Path) -> None:
    folder = owners / "cats/migrations"
    assert newest_revision(folder) == "0001"
    (folder / "versions/0010_more.py").touch()
    (folder / "versions/notes.txt").touch()
    assert newest_revision(folder) == "0010"


def test_a_newer_schema_is_refused_with_one_sentence(database: Database) -> None:
    migrate(database, "graph_agent.record")
    database.write_now(lambda connection: connection.exec_driver_sql("UPDATE record_schema SET version_num = '9999'").close())
    with pytest.raises(ConfigurationError, match=r"newer schema \(record_schema 9999\) .* upgrade graph-agent$"):
        migrate(database, "graph_agent.record")


@pytest.mark.parametrize(
    "owner", ["graph_agent.record", "graph_agent.chat.conversations", "graph_agent.task_server", "graph_agent.due"]
)
def test_a_database_from_before_the_first_release_is_refused_with_one_sentence(database: Database, owner: str) -> None:
    migrate(database, owner)
    name = owner.rpartition(".")[2]
    renamed = f"ALTER TABLE {name}_schema RENAME TO {name}_version"
    database.write_now(lambda connection: connection.exec_driver_sql(renamed).close())
    before = database.read_now(tables)
    with pytest.raises(ConfigurationError, match=r"log export.*start with a new database"):
        migrate(database, owner)
    assert database.read_now(tables) == before
