"""`graph-agent` in a process that is killed at one of its commits: `python -m tests.chat.crashing_server serve ...`.

The file that the variable ARMED names has `COMMIT before|after`. Commits are counted from the moment when it is there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from graph_agent.bootstrap import stores
from graph_agent.cli.main import main
from tests.crashing_database import CrashingDatabase

ARMED = "GRAPH_AGENT_TEST_ARMED"


class ArmedDatabase(CrashingDatabase):
    """Kills the process at the commit that the file names."""

    fatal = 0
    armed = ""

    async def write(self, work: Any) -> Any:
        if (armed := _armed()) != self.armed:
            self.armed, self.commits = armed, 0
            number, _, self.when = armed.partition(" ")
            self.fatal = int(number or 0)
        return await super().write(work)


def _armed() -> str:
    file = Path(os.environ[ARMED])
    return file.read_text(encoding="utf-8") if file.exists() else ""


if __name__ == "__main__":
    # No setting chooses the class of the database.
    stores.Database = ArmedDatabase  # type: ignore[attr-defined]
    main()
