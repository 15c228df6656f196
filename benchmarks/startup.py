"""CPU of the start of every command, beside the imports that it cannot avoid.

    python -m benchmarks.startup [ROUNDS]

`STARTS` names for each command the libraries that it needs; a test compares that with what it loads. Each process runs alone, a
command and its imports in turn; CPU is user and system time of the process, and the median of the rounds counts. The shares are
the time that the modules of a package take to be imported, without the modules that they import. A package that `ask` loads
beside LangGraph and the MCP SDK and that is not among `NEEDED` ends the program with 1.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROUNDS = 5
SHARES = 12
FLOOR = (sys.executable, "-c", "import langgraph.graph, mcp")
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

HELP = frozenset({"typer", "rich"})
GROUP_HELP = HELP | {"pydantic", "email.message", "importlib.metadata"}
"""Typer imports Pydantic to parse the options in front of a command, and Pydantic asks for its version."""
READS = GROUP_HELP | {"asyncio", "sqlalchemy"}
SIGNS = READS | {"cryptography", "httpx2"}
"""The tree of the log is signed, and its witnesses are asked over HTTP."""
TABLES = SIGNS | {"alembic"}
SERVERS = SIGNS | {"cedarpy", "mcp", "uvicorn", "starlette", "opentelemetry"}
"""The tools are those that the servers serve; the MCP SDK imports a web server and the interface of OpenTelemetry."""
PROVES = SERVERS | {"z3"}
TURNS = SERVERS | {"langgraph.graph", "langchain_core"}
SERVES = TURNS | {"fastapi"}
WATCHED = SERVES | PROVES | TABLES | {"google.genai", "langchain_google_genai", "sqlalchemy.orm"}
"""The libraries of which a command loads only those of its row."""

STARTS: Mapping[str, frozenset[str]] = {
    "--help": HELP,
    "--version": frozenset({"typer", "email.message", "importlib.metadata"}),
    "log --help": GROUP_HELP,
    "diagram": READS,
    "log list": READS,
    "log show": READS,
    "log metrics": READS,
    "log export": READS,
    "budget": READS,
    "rules list": READS,
    "rules show --help": READS,
    "constitution show": READS,
    "due list": READS,
    "due retry --help": READS,
    "stops": SIGNS,
    "questions list": SIGNS,
    "mandates list": SIGNS,
    "mandates from --help": TURNS,
    "mandates show --help": SIGNS,
    "mandates revoke --help": SIGNS,
    "stop --help": SIGNS,
    "rules follow --help": SIGNS,
    "resume --help": SIGNS,
    "log verify": SIGNS,
    "log prune": SIGNS,
    "log consistency --help": SIGNS,
    "log fork --help": SIGNS,
    "log rotate --help": SIGNS,
    "log witness add --help": SIGNS,
    "db migrate": TABLES,
    "db copy --help": TABLES,
    "witness --help": SERVERS | {"fastapi"},
    "log erase --help": SERVERS,
    "constitution new": SERVERS,
    "constitution check": SERVERS,
    "policy new": SERVERS,
    "policy schema": SERVERS,
    "policy check --help": SERVERS,
    "policy suggest": SERVERS,
    "tools list": SERVERS,
    "tools pin --help": SERVERS,
    "tools diff --help": SERVERS,
    "tools sign-in --help": SERVERS,
    "doctor": SERVERS,
    "policy explain": PROVES,
    "policy prove --help": PROVES,
    "policy diff constitution.md constitution.md": PROVES,
    "policy trial": TURNS,
    "rules activate --help": PROVES | TURNS,
    "rules rollback --help": PROVES | TURNS,
    "replay last": TURNS,
    "tools call list_tasks": TURNS,
    "undo --help": TURNS,
    "questions show --help": TURNS,
    "questions answer --help": TURNS,
    "questions cancel --help": TURNS,
    "validate --help": TURNS,
    "demo": TURNS,
    "step hi --model embedded": TURNS,
    "chat --help": TURNS,
    "ask hi --model embedded": TURNS,
    "tools serve --help": SERVES,
    "gateway --help": SERVES,
    "serve --help": SERVES,
}
"""Command line -> the libraries that the command cannot do without. One that waits, or needs more, only prints its help."""
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *([\w.]+)")


def main(rounds: int = ROUNDS) -> None:
    """Print the ratio of each command to its imports, and the shares of the packages in `ask`."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "GRAPH_AGENT_HOME": home, "NO_COLOR": "1"}
        # The first run migrates the databases and writes the bytecode.
        cpu_seconds(command("ask hi --model embedded"), environment)
        print(f"{'command':46}{'CPU in s':>9}{'imports':>9}{'ratio':>7}")
        for line, needs in STARTS.items():
            floor = (sys.executable, "-c", f"import {', '.join(sorted(needs))}")
            # One more of each, because the bytecode of the modules of this command may not be there yet.
            spent = [(cpu_seconds(command(line), environment), cpu_seconds(floor, environment)) for _ in range(rounds + 1)][1:]
            own, imports = (statistics.median(column) for column in zip(*spent, strict=True))
            print(f"{line:46}{own:9.2f}{imports:9.2f}{own / imports:7.2f}")
        shares = import_shares(command("ask hi --model embedded"), environment)
    total = sum(shares.values())
    print("shares in `ask`: " + ", ".join(f"{name} {spent / total:.0%}" for name, spent in shares.most_common(SHARES)))
    if unexpected := unexpected_packages(loaded_by(command("ask hi --model embedded"))):
        sys.exit(f"`ask` loads packages that it does not need: {', '.join(unexpected)}")


def command(line: str) -> tuple[str, str, str]:
    """Return a process that runs a command line."""
    return (sys.executable, "-c", f"from graph_agent.cli.main import main; main({line.split()!r})")


def cpu_seconds(process: Sequence[str], environment: dict[str, str], codes: Sequence[int] = (0,)) -> float:
    """Run a process to its end, which exits with one of these codes, and return its CPU time."""
    nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    started = os.posix_spawn(process[0], list(process), environment, file_actions=nowhere)
    _, status, usage = os.wait4(started, 0)
    if os.waitstatus_to_exitcode(status) not in codes:
        raise RuntimeError(f"{Path(process[0]).name} failed: {' '.join(process[1:])}")
    return usage.ru_utime + usage.ru_stime


def import_shares(process: Sequence[str], environment: dict[str, str]) -> Counter[str]:
    """Return the import time of each top-level package in microseconds."""
    timed = [process[0], "-X", "importtime", *process[1:]]
    report = subprocess.run(timed, env=environment, capture_output=True, text=True, check=True).stderr
    shares: Counter[str] = Counter()
    for spent, module in _IMPORT.findall(report):
        shares[module.partition(".")[0]] += int(spent)
    return shares


def loaded_by(process: Sequence[str]) -> set[str]:
    """Return the modules that a process has loaded when it ends."""
    code = f"import sys\ntry:\n    {process[-1]}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([*process[:-1], code], capture_output=True, text=True, check=True)
    return set(ended.stderr.splitlines()[-1].split())


def unexpected_packages(modules: Iterable[str]) -> list[str]:
    """Return the packages of these modules, which `ask` has loaded, but for those of the floor and those that it needs."""
    packages, floor = ({name.partition(".")[0] for name in loaded} for loaded in (modules, loaded_by(FLOOR)))
    # Compiled packages have a shared part whose name begins with an underscore.
    return sorted(name for name in packages - floor - set(NEEDED) - set(sys.stdlib_module_names) if not name.startswith("_"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
