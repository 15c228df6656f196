"""The search of closed decisions by the words of message, reply and arguments.

The words are cut here, so that both databases find the same: lower case, without accents, letters and digits only. They are a
column of the decision. PostgreSQL has an index of it in each partition. On SQLite triggers keep an index of FTS5 equal to the
column: what removes a decision, by whatever statement, removes its words from the index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

MAX_WORDS = 5000
"""The words of one decision. The rest is not found; PostgreSQL stores at most 1 MB of them."""
MAX_LENGTH = 40
"""The characters of one word that count."""
PAGES = 200
"""The pages of the index that one step of a compaction writes: about ten milliseconds."""

# The marks of Latin, Greek, Cyrillic, Hebrew and Arabic letters.
_ACCENTS = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]+")
# Chinese and Japanese are written without spaces: each character counts as a word.
_SINGLE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")


def words_of(*values: Any) -> str:
    """Return the different words of texts and of the texts and numbers in JSON values, sorted, with a space between two."""
    found: set[str] = set()
    for text in _texts(values):
        found.update(_words(text))
        if len(found) > MAX_WORDS:
            break
    return " ".join(sorted(found)[:MAX_WORDS])


def _words(text: str) -> Iterator[str]:
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return (word[:MAX_LENGTH] for word in _WORD.findall(text.casefold()))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        match value:
            case str():
                yield value
            case bool() | None:
                pass
            case int() | float():
                yield str(value)
            case dict():
                yield from _texts(value.values())
            case list() | tuple():
                yield from _texts(value)


class Words(sa.TypeDecorator[str]):
    """Sorted words with spaces between them: text on SQLite, `tsvector` on PostgreSQL."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(TSVECTOR() if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        if value is None or dialect.name != "postgresql":
            return value
        return " ".join(f"'{word}'" for word in value.split())

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value is None else value.replace("'", "")


def matching(connection: sa.Connection, decisions: sa.FromClause, text: str) -> sa.ColumnElement[bool]:
    """Return the condition that a decision has a word that begins with each word of `text`."""
    words = words_of(text).split()
    if connection.dialect.name == "postgresql":
        wanted = " & ".join(f"'{word}':*" for word in words)
        return decisions.c.words.op("@@", is_comparison=True)(sa.cast(wanted, TSQUERY))
    found = sa.text(
        "SELECT decision_id FROM search_rows WHERE n IN (SELECT rowid FROM search_index WHERE search_index MATCH :search)"
    )
    ids = found.bindparams(search=" ".join(f'"{word}"*' for word in words)).columns(decision_id=sa.String)
    return decisions.c.decision_id.in_(ids)


def begin_compaction(connection: sa.Connection) -> None:
    """Begin to rewrite SQLite's index without the words that were removed, which FTS5 only marks as removed."""
    _merge(connection, -PAGES)


def continue_compaction(connection: sa.Connection) -> bool:
    """Rewrite some pages; return False when the index is rewritten. PostgreSQL has nothing to do: VACUUM removes the words."""
    return _merge(connection, PAGES) > 1


def compact(connection: sa.Connection) -> None:
    """Rewrite all of SQLite's index in this transaction."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("INSERT INTO search_index (search_index) VALUES ('optimize')").close()


def _merge(connection: sa.Connection, pages: int) -> int:
    """Merge parts of the index; return the number of rows of it that were written."""
    if connection.dialect.name != "sqlite":
        return 0
    changes = "SELECT total_changes()"
    before = connection.exec_driver_sql(changes).scalar_one()
    connection.exec_driver_sql("INSERT INTO search_index (search_index, rank) VALUES ('merge', ?)", (pages,)).close()
    return int(connection.exec_driver_sql(changes).scalar_one() - before)


_ADD = """
    INSERT INTO search_rows (decision_id) VALUES (NEW.decision_id);
    INSERT INTO search_index (rowid, words) VALUES ((SELECT n FROM search_rows WHERE decision_id = NEW.decision_id), NEW.words);
"""
_REMOVE = """
    INSERT INTO search_index (search_index, rowid, words)
        SELECT 'delete', n, OLD.words FROM search_rows WHERE decision_id = OLD.decision_id;
    DELETE FROM search_rows WHERE decision_id = OLD.decision_id;
"""
SQLITE_INDEX = (
    # The numbers of the rows of the table may change with VACUUM; those of the index must not.
    "CREATE TABLE search_rows (n INTEGER PRIMARY KEY, decision_id VARCHAR(64) NOT NULL UNIQUE)",
    # Without a copy of the words, and without their places in the text.
    "CREATE VIRTUAL TABLE search_index USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii')",
    f"CREATE TRIGGER search_opened AFTER INSERT ON decision_logs WHEN NEW.words IS NOT NULL BEGIN {_ADD} END",
    # Also if an id is changed by hand: the words must go with the row.
    "CREATE TRIGGER search_closed AFTER UPDATE OF words, decision_id ON decision_logs "
    "WHEN NEW.words IS NOT OLD.words OR NEW.decision_id IS NOT OLD.decision_id "
    f"BEGIN {_REMOVE}{_ADD} END",
    f"CREATE TRIGGER search_removed AFTER DELETE ON decision_logs BEGIN {_REMOVE} END",
)
"""The statements that create the index of SQLite with the table `decision_logs`."""
