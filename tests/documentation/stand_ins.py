"""Stand-ins for programs that download packages, build for minutes, or need a service that a test does not have.

Each of them parses its arguments as the real program does, and does the part that works offline:

- `make` expands the recipe without running it, and looks for what the recipe runs.
- `docker compose` is `podman-compose --dry-run`: it reads the file, its variables and its Dockerfiles.
- `helm` renders the chart with Helm's own library, and checks the resources against the schemas of Kubernetes.
- `python3 -m venv` makes an environment that sees the libraries of the tests, and whose `pip` finds the wheel offline.
- `langgraph` is the real one, which stops where it needs a server that is not installed; the file it reads is validated.
- `jq` runs its program by the same library.
- `llama-server` and `ollama` do nothing.
- `pytest` collects, `ruff` is the real one, and `mypy` and `lint-imports` check nothing but their arguments.

    python -m tests.documentation.stand_ins make check
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import jq

from tests import fork_server
from tests.documentation.site import ROOT

PROGRAMS = Path(sys.executable).parent
NOT_SHARED = re.compile(r"graph_agent|__editable__|_editable_|.*\.pth$|__pycache__")
"""The entries of site-packages that a new environment does not see."""

SCRIPTS = {
    "apt-get": 'exec {here} apt-get "$@"',
    "docker": '[ "$1" = compose ] && shift && exec {programs}/podman-compose --dry-run "$@"',
    "helm": 'exec {here_helm} "$@"',
    "jq": 'exec {here} jq "$@"',
    "langgraph": 'exec {here} langgraph "$@"',
    "lint-imports": 'exec {programs}/lint-imports "$@" --help',
    "llama-server": '[ -n "$1" ]',
    "make": 'exec {here} make "$@"',
    "mypy": 'exec {programs}/mypy "$@" --config-file /dev/null --cache-dir /dev/null --command pass',
    "pip": 'exec "$HOME/venv/bin/pip" "$@"',
    "ollama": '[ "$1" = pull ] || [ "$1" = serve ]',
    "podman": "echo []",
    # In a process that has imported everything pytest cannot rewrite the assertions of plugins, and would warn of it.
    "pytest": 'cd {root} && exec {python} -m pytest {no_warning} --collect-only -p no:cacheprovider "$@"',
    "python3": '[ "$1 $2" = "-m venv" ] && shift 2 && exec {here} venv "$@"\nexec {python} "$@"',
    "ruff": 'exec {programs}/ruff "$@"',
    "sudo": 'exec "$@"',
}

NO_WARNING = "-W ignore::pytest.PytestAssertRewriteWarning"

NPX = """#!/usr/bin/env {python}
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("files", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_directory(path: str) -> str:
    return "a, b, c"


server.run("stdio")
"""
"""A server in the place of the one from npm, which a test cannot download."""


def install(folder: Path) -> None:
    """Write the stand-ins into a folder for the PATH."""
    folder.mkdir()
    python = fork_server.python()
    here = f"env PYTHONPATH={ROOT} {python} -m tests.documentation.stand_ins"
    # In a separate module, because the libraries that it imports take longer to import than the other stand-ins run.
    here_helm = f"env PYTHONPATH={ROOT} {python} -m tests.documentation.helm_install"
    for name, script in SCRIPTS.items():
        text = script.format(here=here, here_helm=here_helm, programs=PROGRAMS, python=python, root=ROOT, no_warning=NO_WARNING)
        _write_program(folder / name, f"#!/bin/sh\n{text}\n")
    _write_program(folder / "npx", NPX.format(python=python))


def _write_program(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


def build_wheel(folder: Path) -> None:
    """Write the wheel of graph-agent, with the page as it was built before."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "HATCH_BUILD_NO_HOOKS": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr


def apt_get(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("apt-get")
    install = parser.add_subparsers(required=True).add_parser("install")
    install.add_argument("package", nargs="+")
    parser.parse_args(arguments)


def run_jq(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("jq")
    parser.add_argument("-r", action="store_true")
    parser.add_argument("program")
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    for result in jq.compile(options.program).input_text(options.file.read_text(encoding="utf-8")):
        print(result if options.r and isinstance(result, str) else json.dumps(result))


def langgraph(arguments: list[str]) -> None:
    subprocess.run([PROGRAMS / "langgraph", "validate"], check=True)
    started = subprocess.run([PROGRAMS / "langgraph", *arguments], capture_output=True, text=True, check=False)
    if "Required package 'langgraph-api' is not installed" not in started.stderr:
        sys.exit(started.stdout + started.stderr)


def make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (argument.partition("=")[0] for argument in arguments if "=" in argument):
        if not re.search(rf"^{name} \?=", makefile, re.MULTILINE):
            sys.exit(f"the Makefile has no variable {name}")
    program = shutil.which("make", path="/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin")
    assert program is not None, "there is no make"
    # Under `make check` the options of that make must not reach this one.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    command = [program, "--dry-run", "--no-print-directory", "--directory", str(ROOT), *arguments]
    recipe = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(recipe.stdout)
    if problems := [*missing_in(recipe.stdout), *(["make failed"] if recipe.returncode else [])]:
        sys.exit("\n".join(problems))


def missing_in(recipe: str) -> list[str]:
    """Return the programs, modules and files that a recipe uses and that do not exist."""
    programs = {name for name in re.findall(r"\.venv/bin/([\w-]+)", recipe) if not (PROGRAMS / name).exists()}
    modules = {name for name in re.findall(r"python3? -m ([\w.]+)", recipe) if find_spec(name) is None}
    files = {name for name in re.findall(r"(?<=[ ])[\w/]+\.(?:py|toml|txt)\b(?! \|)", recipe) if not (ROOT / name).exists()}
    return [f"there is no {name}" for name in sorted(programs | modules | files)]


def make_environment(arguments: list[str]) -> None:
    """Make an environment whose `pip` installs offline: from PIP_FIND_LINKS, and with the libraries of the tests."""
    venv.main([*arguments, "--without-pip"])
    folder = Path(arguments[-1])
    (_site_packages(folder) / "shared.pth").write_text(str(_shared_libraries()), encoding="utf-8")
    pip = f'exec "{folder.resolve()}/bin/python" -m pip "$command" --no-build-isolation --no-compile --no-warn-conflicts "$@"'
    _write_program(folder / "bin" / "pip", f"#!/bin/sh\ncommand=$1\nshift\n{pip}\n")


def _shared_libraries() -> Path:
    """Return the folder with the libraries of the tests; it stays where it is, because bytecode is kept by the path."""
    shared = Path(sys.prefix) / "shared"
    shared.mkdir(exist_ok=True)
    for entry in _site_packages(Path(sys.prefix)).iterdir():
        # Another test process may do the same.
        with suppress(FileExistsError):
            if not NOT_SHARED.match(entry.name):
                (shared / entry.name).symlink_to(entry)
    for entry in shared.iterdir():
        if not entry.exists():
            entry.unlink(missing_ok=True)
    return shared


def _site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


STAND_INS = {"apt-get": apt_get, "jq": run_jq, "langgraph": langgraph, "make": make, "venv": make_environment}

if __name__ == "__main__":
    STAND_INS[sys.argv[1]](sys.argv[2:])
