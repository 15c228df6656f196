"""Close decisions and seal the log; kill this process right before or after one of its commits.

Run as `crashing_process URL HEAD KEY COMMIT before|after`, with the number of the commit, from 1. It ends normally if there are
fewer.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.note import SigningKey
from tests.crashing_database import CrashingDatabase
from tests.record.trees import KEY, LogFiller


async def main(url: str, head: str, key: str, fatal: str, when: str) -> None:
    database = CrashingDatabase.open(url)
    database.fatal, database.when = int(fatal), when
    filler = LogFiller(DatabaseAuditWriter(database, record_key=KEY), RandomIds())
    tree = RecordTree(database, LogKeys([SigningKey.parse(key)]), key=KEY, clock=SystemClock(), head=Path(head))
    await filler.fill(2)
    await tree.seal()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
