"""Build the wheel and the sdist, and use the wheel as a new user would, in an empty environment of each installed Python.

    python -m tests.package_check        # make package
    python -m tests.package_check --python 3.13 --wheel dist/graph_agent-0.1.0-py3-none-any.whl

Prints one line for each Python. For one that is not installed it says so, and checks only that every dependency has a wheel
for it. The first one also runs the wheel with uvx and pipx, as users who want the command alone do. Exits with 1 if the package
fails in one, if a wheel is missing, or if no Python is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).parents[1]
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
NEEDED = ("graph_agent/constitution.md", "graph_agent/api/page/index.html", "graph_agent/py.typed")

EXTRAS = "postgresql,otel,agui"
LIBRARY = """
import graph_agent
assert set(graph_agent.__all__) <= set(dir(graph_agent))
for name in graph_agent.__all__:
    getattr(graph_agent, name)
"""


def main() -> int:
    """Run the checks and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.package_check", description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="check this Python only; may be repeated")
    parser.add_argument("--wheel", type=Path, help="check this wheel instead of building one")
    arguments = parser.parse_args()
    pythons = arguments.python or PYTHONS
    with tempfile.TemporaryDirectory(prefix="graph-agent-package-") as folder:
        wheel = arguments.wheel.resolve() if arguments.wheel else _build(Path(folder))
        results = {python: _check(wheel, python, Path(folder)) for python in pythons}
        missing = [python for python, result in results.items() if result is None]
        tested = [python for python in pythons if python not in missing]
        tools = tested and _check_tools(wheel, tested[0], Path(folder))
        wheels = [_check_wheels(wheel, python) for python in missing]
    return 0 if tools and all(wheels) and all(results[python] for python in tested) else 1


def _build(folder: Path) -> Path:
    """Build the sdist and, from it, the wheel; check their contents and return the wheel."""
    _run([UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    with tarfile.open(sdist) as archive:
        foreign = [name for name in archive.getnames() if "node_modules" in name or "/.venv" in name]
    assert not foreign, f"the sdist contains {foreign[0]}"
    for needed in NEEDED:
        assert needed in names, f"the wheel has no {needed}"
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:,.0f} KB, {len(names)} files")
    return wheel


def _check(wheel: Path, python: str, folder: Path) -> bool | None:
    """Return True if the wheel works in an empty environment of this Python, and None if the Python is not installed."""
    interpreter = _find(python)
    if interpreter is None:
        return None
    environment, home = folder / f"venv-{python}", folder / f"home-{python}"
    _run([UV, "venv", "--quiet", "--python", interpreter, str(environment)], check=True)
    _run([UV, "pip", "install", "--quiet", "--python", str(environment), f"{wheel}[{EXTRAS}]"], check=True)
    command = str(environment / "bin" / "graph-agent")
    uses: list[tuple[list[str], str]] = [
        ([command, "--version"], "graph-agent "),
        ([command, "demo"], "✓"),
        ([command, "ask", "add a task to call mom"], "call mom"),
        ([command, "ask", "show my tasks"], "call mom"),
        ([command, "replay", "--all"], "2 of 2 identical"),
        ([command, "log", "verify"], "intact: 2 records"),
        ([command, "validate", "--only", "delete-*"], "cases passed"),
        ([str(environment / "bin" / "python"), "-c", LIBRARY], ""),
    ]
    variables = {**os.environ, "GRAPH_AGENT_HOME": str(home), "NO_COLOR": "1"}
    for arguments, expected in uses:
        used = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if used.returncode or expected not in used.stdout:
            print(f"Python {python}: {' '.join(arguments)} exited with {used.returncode}")
            print(used.stdout[-800:], used.stderr[-800:])
            return False
    print(f"Python {python}: {len(uses)} commands work")
    return True


def _find(python: str) -> str | None:
    """Return the path of an interpreter that uv finds, or one of pyenv that is not selected there."""
    found = _run([UV, "python", "find", "--no-project", python])
    if found.returncode == 0:
        return found.stdout.strip()
    return next(map(str, sorted(PYENV.glob(f"{python}.*/bin/python{python}"), reverse=True)), None)


def _check_wheels(wheel: Path, python: str) -> bool:
    """Return True if every dependency has a wheel for a Python that is not installed here."""
    options = ["--quiet", "--no-header", "--no-annotate", "--python-version", python, "--only-binary", ":all:"]
    requirement = f"graph-agent[{EXTRAS}] @ {wheel.as_uri()}"
    resolved = _run([UV, "pip", "compile", *options, "-"], text=requirement)
    packages = len(resolved.stdout.splitlines())
    if resolved.returncode:
        print(f"Python {python}: not installed here, and a dependency has no wheel for it", resolved.stderr[-800:])
        return False
    print(f"Python {python}: skipped, no interpreter was found; all {packages - 1} dependencies have a wheel for it")
    return True


def _check_tools(wheel: Path, python: str, folder: Path) -> bool:
    """Return True if uvx and pipx run the command of the wheel."""
    tool = [UV, "tool", "run", "--quiet", "--python", _find(python) or python]
    ways = {
        "uvx": [*tool, "--from", str(wheel), "graph-agent", "--version"],
        "pipx": [*tool, "pipx", "run", "--spec", str(wheel), "graph-agent", "--version"],
    }
    variables = {**os.environ, "PIPX_HOME": str(folder / "pipx"), "GRAPH_AGENT_HOME": str(folder / "home-tools")}
    for name, arguments in ways.items():
        used = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if used.returncode or not used.stdout.startswith("graph-agent "):
            print(f"{name} exited with {used.returncode}", used.stdout[-800:], used.stderr[-800:])
            return False
    print(f"{' and '.join(ways)} run the command")
    return True


def _run(arguments: list[str], *, check: bool = False, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, input=text, capture_output=True, text=True, check=check)


if __name__ == "__main__":
    sys.exit(main())
