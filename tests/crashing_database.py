"""A database whose process is killed at one of its commits."""

from __future__ import annotations

import os
import signal
from typing import Any

from graph_agent.db import Database


class CrashingDatabase(Database):
    """Kills the process right before or after the commit with the number `fatal`, counted from 1."""

    commits = 0
    fatal: int
    when: str
    """`before` or `after`."""

    async def write(self, work: Any) -> Any:
        self.commits += 1
        if self.commits != self.fatal:
            return await super().write(work)

        def die_before_the_commit(connection: Any) -> None:
            work(connection)
            kill()

        result = await super().write(die_before_the_commit if self.when == "before" else work)
        kill()
        return result


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
