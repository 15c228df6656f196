"""CPU of commands on a log of 300,000 decisions, beside one of 10,000: `python -m benchmarks.large_log [DECISIONS]`.

Both logs are in SQLite, each in a home of its own. A command runs on both, once before its figure counts. What has a ratio near
1 does not grow with the log. The seconds are those of this machine.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from benchmarks.startup import command, cpu_seconds
from graph_agent.bootstrap.secret import record_keys
from graph_agent.db import Database, migrate
from graph_agent.settings import Settings
from tests.record.generated_log import fill

DECISIONS = 300_000
SMALL = 10_000
COMMANDS: Mapping[str, str] = {
    "list": "log list",
    "list, one user": "log list --user user-7",
    "list, by words": "log list --search groceries",
    "inbox": "questions list",
    "show": "log show {newest}",
    "suggest": "policy suggest",
    "trial": "policy trial",
    "verify, not sealed": "log verify",
    "verify, sealed": "log verify",
}
_SEALS = "verify, not sealed"
"""The first of the two commands: it leaves a sealed log."""

_VIOLATIONS = 1
"""The exit code of `log verify`, which reads everything: the generated durations are not those of the records."""


def _filled(home: Path, decisions: int) -> dict[str, str]:
    """Return the environment of a home with a log; its commands write nothing but the head of the tree."""
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_"))}
    # The log is older than the default retention.
    environment |= {"GRAPH_AGENT_HOME": str(home), "GRAPH_AGENT_RETENTION_DAYS": "36500"}
    cpu_seconds(command("db migrate"), environment)
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    migrate(database, "graph_agent.record")
    fill(database, decisions, record_keys(Settings(home=home)))
    database.close_now()
    return environment


def _newest(home: Path) -> str:
    with closing(sqlite3.connect(home / "graph_agent.db")) as database:
        return str(database.execute("SELECT max(decision_id) FROM decision_logs").fetchone()[0])


def main(decisions: int) -> None:
    """Print one line for each command."""
    with tempfile.TemporaryDirectory() as folder:
        homes = {count: Path(folder) / str(count) for count in (SMALL, decisions)}
        environments = {count: _filled(home, count) for count, home in homes.items()}
        print(f"{'CPU in seconds':22}{SMALL:>10,}{decisions:>10,}{'ratio':>8}")
        for name, line in COMMANDS.items():
            spent = {}
            for count, environment in environments.items():
                process = command(line.format(newest=_newest(homes[count])))
                codes = (_VIOLATIONS if line == "log verify" else 0,)
                if name != _SEALS:
                    cpu_seconds(process, environment, codes)
                spent[count] = cpu_seconds(process, environment, codes)
            print(f"{name:22}{spent[SMALL]:10.1f}{spent[decisions]:10.1f}{spent[decisions] / spent[SMALL]:8.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DECISIONS)
