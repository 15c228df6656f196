"""Installing a package in a folder of its own. No script of a package runs: npm's are ignored, and PyPI's must be wheels."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.corpus.packages import Package

INSTALL_SECONDS = 300


class NotInstalledError(Exception):
    """The package cannot be installed here, or has no program. The text is the reason."""


def install(package: Package, folder: Path, *more: str) -> list[str]:
    """Install a package into `folder`, with `more` requirements; return its server's command. Raises `NotInstalledError`."""
    if package.registry == "npm":
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, package.name)
        program = _npm_program(package, folder / "node_modules" / package.name)
        return [shutil.which("node") or "node", str(program), *package.arguments]
    uv = Path(sys.executable).with_name("uv")
    _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder)
    _run(uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", folder, package.name, *more)
    return [str(folder / "bin" / _python_program(package, folder)), *package.arguments]


def _run(*command: str | Path) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"its installation takes more than {INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as exc:
        wheels = "no wheels" in exc.stderr or "no usable wheels" in exc.stderr or "not have a wheel" in exc.stderr
        raise NotInstalledError("it has no wheel for this machine" if wheels else "it cannot be installed") from exc


def _npm_program(package: Package, folder: Path) -> Path:
    programs = json.loads((folder / "package.json").read_text(encoding="utf-8")).get("bin") or {}
    if isinstance(programs, str):
        return folder / programs
    return folder / str(programs[_chosen(package, list(programs))])


def _python_program(package: Package, folder: Path) -> str:
    normal = package.name.replace("-", "_").replace(".", "_")
    for file in folder.glob("lib/python*/site-packages/*.dist-info/entry_points.txt"):
        if file.parent.name.lower().replace("-", "_").replace(".", "_").startswith(f"{normal}_"):
            parser = configparser.ConfigParser(delimiters=("=",), strict=False)
            parser.read_string(file.read_text(encoding="utf-8"))
            if parser.has_section("console_scripts"):
                return _chosen(package, list(parser["console_scripts"]))
    raise NotInstalledError("it has no program")


def _chosen(package: Package, programs: list[str]) -> str:
    """Return the program that is named, or has the name of the package, or names MCP, or is the first one."""
    last = package.name.rpartition("/")[2]
    wanted = [package.program, last, *(one for one in programs if "mcp" in one), *programs]
    found = next((one for one in wanted if one in programs), None)
    if found is None:
        raise NotInstalledError("it has no program")
    return found
