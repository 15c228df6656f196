"""A process that dies in a turn inside a graph with a saver of LangGraph, and the next one, which resumes the graph."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

from sqlalchemy import text

from graph_agent.db import Database
from tests import fork_server


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [fork_server.python(), "-m", "tests.integrations.langchain.crashing_process", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows(url: str, statement: str) -> list[Any]:
    async def read() -> list[Any]:
        database = Database.open(url)
        found = await database.read(lambda connection: [tuple(row) for row in connection.execute(text(statement))])
        await database.close()
        return found

    return asyncio.run(read())


def test_after_a_crash_a_resume_makes_one_effect_one_record_and_no_more_checkpoints(database_url: str, tmp_path: Path) -> None:
    killed = start(str(tmp_path), database_url, "killed", "add a task to call mom")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert rows(database_url, "SELECT status FROM decision_logs") == [("PENDING",)]

    resumed = start(str(tmp_path), database_url, "resumed")
    assert resumed.stdout == "Added 'call mom' to your list.|3|['']\n", resumed.stderr

    assert rows(database_url, "SELECT description FROM tasks") == [("call mom",)]
    assert rows(database_url, "SELECT status, decision_type FROM decision_logs") == [("completed", "INVOKE_TOOL")]
