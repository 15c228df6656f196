"""`make foreign`: install MCP servers from npm and PyPI in pinned versions, and run the tests against them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".foreign"

NPM = (
    *(
        f"@modelcontextprotocol/server-{name}@2026.8.31"
        for name in ("filesystem", "memory", "everything", "sequential-thinking")
    ),
    # Only their tools are listed.
    "@modelcontextprotocol/server-github@2025.4.8",
    "@playwright/mcp@0.0.83",
    "@notionhq/notion-mcp-server@2.5.2",
)
PYPI = {
    "py": (
        "mcp-server-time==2026.10.19",
        "mcp-server-git==2026.10.19",
        "mcp-server-fetch==2026.10.24",
        "excel-mcp-server==2.2.2",
    ),
    # They were written for the first version of the SDK.
    "py-old": (
        "mcp-server-sqlite==2025.4.25",
        "mcp-server-calculator==0.2.1",
        "mcp-server-duckdb==1.1.0",
        "mcp-text-editor==1.0.2",
        "mcp==1.30.0",
    ),
}


def install() -> None:
    """Install what is missing. The stamp names the versions, so that a change of them installs again."""
    stamp, wanted = INSTALLED / "stamp", repr((NPM, PYPI))
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(INSTALLED, ignore_errors=True)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", INSTALLED / "npm", *NPM], check=True)
    uv = Path(sys.executable).with_name("uv")
    for folder, packages in PYPI.items():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, INSTALLED / folder], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", INSTALLED / folder, *packages], check=True)
    stamp.write_text(wanted, encoding="utf-8")


def main() -> None:
    if shutil.which("npm") is None:
        print("foreign: skipped, because there is no npm")
        return
    install()
    environment = {**os.environ, "FOREIGN_SERVERS": str(INSTALLED)}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "foreign", "tests/foreign"]
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
