"""Run public MCP servers through everything that is written and checked, and print a table.

Each package is installed in a temporary folder, and its server runs confined: without network, secrets, or other folders. Only
figures are printed: no name of a tool and no text of a server. The lists are in the folder that `--keep DIR` names.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.corpus.chain import Chain, StepError, import_commands
from benchmarks.corpus.confined import can_confine, confined
from benchmarks.corpus.install import NotInstalledError, install
from benchmarks.corpus.packages import PACKAGES, Package
from benchmarks.corpus.table import Row, table

_START_SECONDS = 90
_BEGIN, _END = "<!-- the table of make corpus -->", "<!-- its end -->"


def main() -> None:
    """Run the corpus."""
    parser = argparse.ArgumentParser(prog="make corpus", description=__doc__)
    parser.add_argument("names", nargs="*", help="packages; all of them if none is named")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="keep what is written for each server in this folder")
    parser.add_argument("--write", type=Path, help="write the table to this page")
    given = parser.parse_args()
    if shutil.which("npm") is None or not can_confine():
        print("corpus: skipped, because there is no npm, or no bubblewrap to confine the servers with")
        return
    chosen = [one for one in PACKAGES if not given.names or one.name in given.names]
    import_commands()
    # Processes without threads, because each command is a fork of them. Not those of a pool, which may have no children.
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "rows")
        results.mkdir()
        context = multiprocessing.get_context("fork")
        workers = [
            context.Process(target=_run_all, args=(chosen[number :: given.jobs], Path(folder), given.keep, results))
            for number in range(given.jobs)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rows = [pickle.loads((results / f"{PACKAGES.index(one)}").read_bytes()) for one in chosen]
    text = table(rows)
    print(f"\n{text}")
    if given.write is not None:
        before, _, rest = given.write.read_text(encoding="utf-8").partition(_BEGIN)
        given.write.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
    sys.exit(any(row.found is not None and row.found.failures for row in rows))


def _run_all(packages: Sequence[Package], folder: Path, keep: Path | None, results: Path) -> None:
    for package in packages:
        row = _run(package, folder, keep)
        (results / f"{PACKAGES.index(package)}").write_bytes(pickle.dumps(row))


def _run(package: Package, root: Path, keep: Path | None) -> Row:
    begun = time.monotonic()
    folder = root / f"{package.registry}-{package.name.replace('/', '-')}"
    try:
        starts, chain = _started(package, folder)
        if chain is not None:
            chain.check()
    finally:
        if keep is not None and (folder / "work").exists():
            shutil.copytree(folder / "work", keep / folder.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("home"))
        shutil.rmtree(folder, ignore_errors=True)
    row = Row(package, starts, None if chain is None else chain.found, time.monotonic() - begun)
    print(f"{row.markdown()} {row.seconds / 60:.1f} min", file=sys.stderr, flush=True)
    for failure in [] if chain is None else chain.found.failures:
        print(f"    {failure}", file=sys.stderr, flush=True)
    return row


class _Way(NamedTuple):
    """A way to start a server."""

    name: str
    variables: Mapping[str, str] = MappingProxyType({})
    requirements: tuple[str, ...] = ()


def _ways(package: Package) -> list[_Way]:
    """Return how a server may be started; the first way that works counts."""
    ways = [_Way("yes"), *([_Way("with made-up keys", package.needs)] if package.needs else [])]
    if package.registry == "PyPI":
        # Many were written for the first version of the SDK, and do not say so.
        ways.append(_Way(f"{ways[-1].name}, and `mcp<2`", package.needs, ("mcp<2",)))
    return ways


def _started(package: Package, folder: Path) -> tuple[str, Chain | None]:
    """Install a package and write a constitution for its server; return how it starts, and the rest of the chain."""
    installed, data = folder / "installed", folder / "data"
    data.mkdir(parents=True)
    reason = ""
    for way in _ways(package):
        try:
            command = install(package, installed, *way.requirements)
        except NotInstalledError as exc:
            return f"no: {(reason and _in_words(reason)) or exc}", None
        program, *arguments = confined(command, installed, data, way.variables)
        entry = {"command": program, "args": arguments, "start_timeout": _START_SECONDS, "timeout": 20}
        chain = Chain(folder / "work", {"server": entry})
        try:
            chain.write_constitution()
            tools = chain.pin()
        except StepError as exc:
            reason = str(exc)
        else:
            # The others ask for the same list, which need not take the start of the server each time.
            played = Path(__file__).with_name("played_server.py")
            (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
            chain.use({"server": {"python": str(played), "args": [str(folder / "tools.json"), "50"], "timeout": 60}})
            return way.name, chain
    print(f"    {package.name}: {reason}", file=sys.stderr, flush=True)
    return f"no: {_in_words(reason)}", None


def _in_words(reason: str) -> str:
    """Return the kind of a failure in our own words: the server's are not repeated."""
    if "no tool of these servers can be granted" in reason:
        return "no tool can be granted"
    if "in time" in reason:
        return "no answer in time"
    return "it ends"


if __name__ == "__main__":
    main()
