"""Servers from PyPI: the official ones for time, git, fetch and sqlite; Excel, a calculator, DuckDB and a text editor."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from tests.foreign.conftest import Agent, call

pytestmark = pytest.mark.foreign

Build = Callable[[dict[str, Any], str], Agent]


def command(installed: Path, name: str, folder: str = "py") -> str:
    return str(installed / folder / "bin" / f"mcp-server-{name}")


def test_time(agent: Build, installed: Path) -> None:
    """It changes nothing; a tool without `(reads)` is treated as a change all the same."""
    clock = agent(
        {"command": command(installed, "time"), "args": ["--local-timezone", "UTC"]},
        "- get_current_time: Tell the time (reads)\n- convert_time: Convert a time (requires confirmation)",
    )
    convert = call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")

    assert "Asia/Tokyo" in clock.reads(call("get_current_time", timezone="Asia/Tokyo"))
    clock.refuses(call("set_time", time="12:00"), ToolErrorCode.TOOL_NOT_FOUND)
    clock.refuses(call("get_current_time", timezone=7), ToolErrorCode.VALIDATION_ERROR)
    clock.declines(convert)
    assert "21:00" in clock.confirms(convert)
    unconfirmed = agent(
        {"command": command(installed, "time")},
        "- get_current_time: Tell the time (without confirmation)\n- convert_time: Convert a time (without confirmation)",
    )
    unconfirmed.fails_after(convert, call("get_current_time", timezone="Atlantis/Capital"))
    unconfirmed.replays()


def test_git(agent: Build, installed: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(repository), *arguments], text=True, capture_output=True, check=True
        ).stdout.strip()

    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.org")
    (repository / "a.txt").write_text("tea\n", encoding="utf-8")
    git("add", "a.txt")
    git("commit", "-q", "-m", "first")
    (repository / "a.txt").write_text("coffee\n", encoding="utf-8")
    (repository / "b.txt").write_text("milk\n", encoding="utf-8")
    where = {"repo_path": str(repository)}
    versions = agent(
        {"command": command(installed, "git"), "args": ["--repository", str(repository)]},
        "- git_status: Show the status (reads)\n- git_add: Stage files (without confirmation)\n"
        "- git_checkout: Switch branches (without confirmation)\n"
        "- git_commit: Commit (requires confirmation)",
    )
    commit = call("git_commit", **where, message="second")

    assert "a.txt" in versions.reads(call("git_status", **where))
    versions.changes(call("git_add", **where, files=["a.txt"]))
    versions.refuses(call("git_reset", **where), ToolErrorCode.TOOL_NOT_FOUND)
    versions.refuses(call("git_add", **where, files="a.txt"), ToolErrorCode.VALIDATION_ERROR)
    versions.declines(commit)
    assert git("log", "--format=%s") == "first"
    versions.confirms(commit)
    versions.fails_after(call("git_add", **where, files=["b.txt"]), call("git_checkout", **where, branch_name="nowhere"))
    assert git("log", "--format=%s") == "second\nfirst"
    assert git("diff", "--cached", "--name-only") == "b.txt"
    assert git("branch", "--show-current") == "main"
    versions.replays()


class Website:
    """A site with one page; it counts the requests for it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path == "/page"
                if found:
                    site.requests.append(self.path)
                body = b"<html><body><h1>Tea</h1><p>Green tea is not black.</p></body></html>" if found else b"nothing"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Website:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def website() -> Iterator[Website]:
    with Website() as site:
        yield site


def test_fetch(agent: Build, installed: Path, website: Website) -> None:
    """It changes nothing, and has one tool: the constitutions below grant it in three ways."""
    server = {"command": command(installed, "fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]}
    page, missing = call("fetch", url=f"{website.url}/page"), call("fetch", url=f"{website.url}/missing")

    reader = agent(server, "- fetch: Fetch a page (reads)")
    assert "Green tea" in reader.reads(page)
    reader.refuses(call("post", url=f"{website.url}/page"), ToolErrorCode.TOOL_NOT_FOUND)
    reader.refuses(call("fetch", url=7), ToolErrorCode.VALIDATION_ERROR)
    assert website.requests == ["/page"]
    asking = agent(server, "- fetch: Fetch a page (requires confirmation)")
    asking.declines(page)
    assert website.requests == ["/page"]
    assert "Green tea" in asking.confirms(page)
    acting = agent(server, "- fetch: Fetch a page (without confirmation)")
    acting.changes(page)
    acting.fails_after(page, missing)
    assert website.requests == ["/page"] * 4
    acting.replays()


def test_sqlite(agent: Build, installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    notes = agent(
        {"command": command(installed, "sqlite", "py-old"), "args": ["--db-path", str(file)]},
        "- read_query: Select (reads)\n- create_table: Create a table (without confirmation)\n"
        "- write_query: Change rows (requires confirmation)",
    )
    insert = call("write_query", query="INSERT INTO notes VALUES ('milk')")

    def rows() -> list[str]:
        with sqlite3.connect(file) as connection:
            return [text for (text,) in connection.execute("SELECT text FROM notes")]

    notes.changes(call("create_table", query="CREATE TABLE notes (text TEXT)"))
    notes.declines(insert)
    assert rows() == []
    notes.confirms(insert)
    assert rows() == ["milk"]
    assert "milk" in notes.reads(call("read_query", query="SELECT text FROM notes"))
    notes.refuses(call("append_insight", insight="x"), ToolErrorCode.TOOL_NOT_FOUND)
    notes.refuses(call("read_query", query=7), ToolErrorCode.VALIDATION_ERROR)
    writer = agent(
        {"command": command(installed, "sqlite", "py-old"), "args": ["--db-path", str(file)]},
        "- write_query: Change rows (without confirmation)",
    )
    writer.changes(call("write_query", query="INSERT INTO notes VALUES ('tea')"))
    # This server reports a failed statement as an ordinary text, without `isError`: only the text can tell it.
    inserts = [call("write_query", query=f"INSERT INTO {table} VALUES ('bread')") for table in ("notes", "nowhere")]
    first, second = (made for insert in inserts for made in writer.invocations(writer.ask("do it", [insert])))
    assert (first["success"], second["success"]) == (True, True)
    assert "no such table: nowhere" in str(second["result"])
    assert rows() == ["milk", "tea", "bread"]
    writer.replays()


def test_excel(agent: Build, installed: Path, tmp_path: Path) -> None:
    book = str(tmp_path / "book.xlsx")
    excel = agent(
        {"command": str(installed / "py" / "bin" / "excel-mcp-server"), "args": ["stdio"]},
        "- describe_workbook: Describe a workbook (reads)\n- read_range: Read cells (reads)\n"
        "- create_workbook: Create a workbook (without confirmation)\n- write_range: Write cells (requires confirmation)",
    )
    write = call("write_range", path=book, sheet="Sheet1", at="A1", rows=[["tea", 2], ["milk", None]])
    read = call("read_range", path=book, sheet="Sheet1")

    excel.changes(call("create_workbook", path=book))
    assert "Sheet1" in excel.reads(call("describe_workbook", path=book))
    excel.refuses(call("delete_sheet", path=book, sheet="Sheet1"), ToolErrorCode.TOOL_NOT_FOUND)
    excel.refuses(call("read_range", path=book, sheet=7), ToolErrorCode.VALIDATION_ERROR)
    excel.declines(write)
    assert "tea" not in excel.reads(read)
    excel.confirms(write)
    assert "tea" in excel.reads(read)
    excel.replays()


def test_calculator(agent: Build, installed: Path) -> None:
    """It changes nothing; its one tool is granted in two ways."""
    server = {"command": command(installed, "calculator", "py-old")}
    reader = agent(server, "- calculate: Calculate (reads)")
    assert "42" in reader.reads(call("calculate", expression="6 * 7"))
    reader.refuses(call("evaluate", expression="1"), ToolErrorCode.TOOL_NOT_FOUND)
    reader.refuses(call("calculate", expression=7), ToolErrorCode.VALIDATION_ERROR)
    asking = agent(server, "- calculate: Calculate (requires confirmation)")
    asking.declines(call("calculate", expression="1 + 1"))
    assert "42" in asking.confirms(call("calculate", expression="6 * 7"))
    acting = agent(server, "- calculate: Calculate (without confirmation)")
    acting.fails_after(call("calculate", expression="1 + 1"), call("calculate", expression="1 / 0"))
    acting.replays()


def test_duckdb(agent: Build, installed: Path, tmp_path: Path) -> None:
    server = {"command": command(installed, "duckdb", "py-old"), "args": ["--db-path", str(tmp_path / "notes.duckdb")]}
    writer = agent(server, "- query: Change tables (without confirmation)")
    writer.changes(call("query", query="CREATE TABLE notes (text VARCHAR)"))
    writer.refuses(call("query", query=7), ToolErrorCode.VALIDATION_ERROR)
    asking = agent(server, "- query: Change tables (requires confirmation)")
    insert = call("query", query="INSERT INTO notes VALUES ('milk')")
    asking.declines(insert)
    reader = agent(server, "- query: Ask tables (reads)")
    assert "milk" not in reader.reads(call("query", query="SELECT text FROM notes"))
    agent(server, "- query: Change tables (requires confirmation)").confirms(insert)
    reader = agent(server, "- query: Ask tables (reads)")
    assert "milk" in reader.reads(call("query", query="SELECT text FROM notes"))
    reader.refuses(call("drop"), ToolErrorCode.TOOL_NOT_FOUND)
    reader.replays()


def test_text_editor(agent: Build, installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("tea\n", encoding="utf-8")
    editor = agent(
        {"command": str(installed / "py-old" / "bin" / "mcp-text-editor")},
        "- get_text_file_contents: Read files (reads)\n- edit_text_file_contents: Edit files (requires confirmation)",
    )
    read = call("get_text_file_contents", files=[{"file_path": str(file), "ranges": [{"start": 1}]}])
    digest = hashlib.sha256(b"tea\n").hexdigest()
    patch = {"line_start": 1, "line_end": 1, "contents": "coffee\n", "range_hash": digest}
    edit = call("edit_text_file_contents", files=[{"path": str(file), "file_hash": digest, "patches": [patch]}])

    assert "tea" in editor.reads(read)
    editor.refuses(call("delete_file", path=str(file)), ToolErrorCode.TOOL_NOT_FOUND)
    editor.refuses(call("get_text_file_contents", files=str(file)), ToolErrorCode.VALIDATION_ERROR)
    editor.declines(edit)
    assert file.read_text(encoding="utf-8") == "tea\n"
    editor.confirms(edit)
    assert file.read_text(encoding="utf-8") == "coffee\n"
    editor.replays()
