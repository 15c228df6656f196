"""The memory of an idle server and of the prover, and the size of the installation, as ratios to what they are built on.

    python -m benchmarks.footprint

Memory is the resident one (Linux): of the server after its first turns, of a command at its peak. The size is that of the files
of all distributions that `pip install graph-agent` installs.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.http import serving
from benchmarks.startup import command
from tests.overload import TURN_REQUEST, send_burst

BARE = (sys.executable, "-c", "import langgraph.graph, mcp, fastapi, uvicorn, sqlalchemy")
PROVER = (sys.executable, "-c", "import mcp, sqlalchemy, z3; z3.Solver().check()")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def main() -> None:
    """Print one line for each figure."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (server, port):
        send_burst(port, TURN_REQUEST, 3, 60)
        idle = resident_megabytes(server)
    libraries = peak_megabytes(BARE)
    print(f"idle server          {idle:7.0f} MiB, ratio to its libraries {idle / libraries:.2f}")
    prover, bare = peak_megabytes(command("policy explain")), peak_megabytes(PROVER)
    print(f"prover, at its peak  {prover:7.0f} MiB, ratio to its libraries {prover / bare:.2f}")
    sizes = installed_megabytes("graph-agent")
    whole, own = sum(sizes.values()), sizes["graph-agent"]
    largest = sorted(sizes, key=lambda name: -sizes[name])[:6]
    print(f"installation         {whole:7.0f} MiB in {len(sizes)} distributions, {own:.1f} of them this one's")
    print(f"  largest: {', '.join(f'{name} {sizes[name]:.0f}' for name in largest)}")


def resident_megabytes(process: int) -> float:
    """Return the resident memory of a running process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def peak_megabytes(process: tuple[str, ...]) -> float:
    """Run a process to its end, in an empty home; return its largest resident memory."""
    with tempfile.TemporaryDirectory() as home:
        nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
        started = os.posix_spawn(process[0], process, {**os.environ, "GRAPH_AGENT_HOME": home}, file_actions=nowhere)
        _, status, usage = os.wait4(started, 0)
    if status:
        raise RuntimeError(f"failed: {' '.join(process[1:])}")
    return usage.ru_maxrss / 1024


def installed_megabytes(name: str) -> dict[str, float]:
    """Return the size of a distribution, and of each that it requires without extras."""
    sizes: dict[str, float] = {}
    waiting = [name]
    while waiting:
        wanted = waiting.pop().lower().replace("_", "-")
        if wanted in sizes:
            continue
        try:
            found = importlib.metadata.distribution(wanted)
        except importlib.metadata.PackageNotFoundError:
            # For another platform or version of Python.
            continue
        files = [Path(str(found.locate_file(file))) for file in found.files or ()]
        if wanted == "graph-agent":
            # An editable installation lists only a link.
            files = list((Path(__file__).parents[1] / "graph_agent").rglob("*.*"))
        sizes[wanted] = sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc") / 2**20
        required = (one.partition(";") for one in found.requires or ())
        waiting += [match[0] for one, _, marker in required if "extra" not in marker and (match := _NAME.match(one))]
    return sizes


if __name__ == "__main__":
    main()
