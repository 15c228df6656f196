"""The task server over stdio, which kills its process between the first commit and the reply.

Run as `crashing_process.py DATABASE_URL MARK`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from graph_agent.db import Database, migrate
from graph_agent.task_server.server import build_task_server


class CrashingDatabase(Database):
    """Commits, then kills the process if the file `mark` does not exist yet."""

    mark: Path

    async def write(self, work: Any) -> Any:
        result = await super().write(work)
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result


if __name__ == "__main__":
    database = CrashingDatabase.open(sys.argv[1])
    database.mark = Path(sys.argv[2])
    migrate(database, "graph_agent.task_server")
    asyncio.run(build_task_server(database).run_stdio_async())
    database.close_now()
