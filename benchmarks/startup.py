"""CPU of `graph-agent ask "hi"`, as a ratio to importing LangGraph and the MCP SDK, which every turn needs.

    python -m benchmarks.startup [ROUNDS]

Each process runs alone, the two kinds in turn; CPU is user and system time of the process, and the median of the rounds counts.
The shares are the time that the modules of a package take to be imported, without the modules that they import. A package that
`ask` loads beside the two and that is not among `NEEDED` ends the program with 1.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

ROUNDS = 7
SHARES = 12
FLOOR = (sys.executable, "-c", "import langgraph.graph, mcp")
ASK = (sys.executable, "-c", "from graph_agent.cli.main import main; main(['ask', 'hi', '--model', 'embedded'])")
NEEDED = {
    "graph_agent": "the program",
    "typer": "the command line",
    "annotated_doc": "typer",
    "shellingham": "typer",
    "sqlalchemy": "the database",
    "jsonschema_rs": "the arguments of calls",
    "yaml": "the embedded model's templates",
    "rapidfuzz": "the embedded model's typing errors",
}
"""The packages that `ask` loads beside LangGraph and the MCP SDK, and what for."""
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *([\w.]+)")


def main(rounds: int = ROUNDS) -> None:
    """Print the ratio and the shares of the packages."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "GRAPH_AGENT_HOME": home, "NO_COLOR": "1"}
        # The first run migrates the databases and writes the bytecode.
        cpu_seconds(ASK, environment)
        floor, ask = [], []
        for _ in range(rounds):
            floor.append(cpu_seconds(FLOOR, environment))
            ask.append(cpu_seconds(ASK, environment))
        shares = import_shares(ASK, environment)
    ratio = statistics.median(ask) / statistics.median(floor)
    print(f'start: ask "hi" {statistics.median(ask):.2f} s CPU, imports of LangGraph and MCP {statistics.median(floor):.2f} s')
    print(f"ratio {ratio:.2f}")
    total = sum(shares.values())
    print("share of the import time: " + ", ".join(f"{name} {spent / total:.0%}" for name, spent in shares.most_common(SHARES)))
    if unexpected := unexpected_packages(loaded_by(ASK)):
        sys.exit(f"`ask` loads packages that it does not need: {', '.join(unexpected)}")


def cpu_seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Run a command to its end and return the CPU time of its process."""
    nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    process = os.posix_spawn(command[0], list(command), environment, file_actions=nowhere)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise RuntimeError(f"{Path(command[0]).name} failed: {' '.join(command[1:])}")
    return usage.ru_utime + usage.ru_stime


def import_shares(command: Sequence[str], environment: dict[str, str]) -> Counter[str]:
    """Return the import time of each top-level package in microseconds."""
    timed = [command[0], "-X", "importtime", *command[1:]]
    report = subprocess.run(timed, env=environment, capture_output=True, text=True, check=True).stderr
    shares: Counter[str] = Counter()
    for spent, module in _IMPORT.findall(report):
        shares[module.partition(".")[0]] += int(spent)
    return shares


def loaded_by(command: Sequence[str]) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    code = f"import sys\ntry:\n    {command[-1]}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([*command[:-1], code], capture_output=True, text=True, check=True)
    return set(ended.stderr.splitlines()[-1].split())


def unexpected_packages(modules: Iterable[str]) -> list[str]:
    """Return the packages of these modules, which `ask` has loaded, but for those of the floor and those that it needs."""
    packages, floor = ({name.partition(".")[0] for name in loaded} for loaded in (modules, loaded_by(FLOOR)))
    # Compiled packages have a shared part whose name begins with an underscore.
    return sorted(name for name in packages - floor - set(NEEDED) - set(sys.stdlib_module_names) if not name.startswith("_"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
