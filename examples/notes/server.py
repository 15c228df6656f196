"""Notes as an MCP server with an operation ledger.

    python examples/notes/server.py notes.db

serves the notes in a SQLite file over stdio. A change and its operation key are committed together, so that a repeated call
changes nothing; a note belongs to the user for whom the call is made.
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, Text, delete, insert, select

from graph_agent.db import Database
from graph_agent.errors import ToolRefusal
from graph_agent.ledger.server import LedgerServer


def build_notes(database: Database, default_user: str | None = None) -> LedgerServer:
    """Return the server for the notes in `database`."""
    tables = MetaData()
    notes = Table(
        "notes", tables, Column("id", String(36), primary_key=True), Column("user_id", String(255)), Column("text", Text)
    )
    server = LedgerServer("notes", database, tables, default_user=default_user)

    def text_of(connection: Connection, user_id: str, note_id: str) -> str:
        own = select(notes.c.text).where(notes.c.id == note_id, notes.c.user_id == user_id)
        text = connection.execute(own).scalar()
        if text is None:
            raise ToolRefusal("There is no such note.")
        return str(text)

    @server.change("Write note")
    def write_note(connection: Connection, user_id: str, text: str) -> dict[str, Any]:
        """Write a note. Use it when the user wants to note or remember something."""
        note_id = str(uuid.uuid4())
        connection.execute(insert(notes), {"id": note_id, "user_id": user_id, "text": text})
        return {"note_id": note_id, "preview": text}

    @server.read("Find notes")
    def find_notes(connection: Connection, user_id: str, words: str = "") -> dict[str, Any]:
        """Find the user's notes that contain these words; all notes without words."""
        found = select(notes.c.id, notes.c.text).where(
            notes.c.user_id == user_id, notes.c.text.icontains(words, autoescape=True)
        )
        return {"notes": [{"note_id": row.id, "text": row.text} for row in connection.execute(found)]}

    @server.change("Delete note", destructive=True, preview="note://{note_id}")
    def delete_note(connection: Connection, user_id: str, note_id: str) -> dict[str, Any]:
        """Delete a note for good."""
        text = text_of(connection, user_id, note_id)
        connection.execute(delete(notes).where(notes.c.id == note_id))
        return {"preview": text}

    @server.preview("note://{note_id}")
    def note(connection: Connection, user_id: str, note_id: str) -> dict[str, Any]:
        return {"description": text_of(connection, user_id, note_id)}

    return server


if __name__ == "__main__":
    build_notes(Database.open(f"sqlite:///{sys.argv[1]}"), default_user="local").run("stdio")
