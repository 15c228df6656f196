"""docs/your_own_tools.md: "a server of your own in ten minutes" runs as it is printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "your_own_tools.md").read_text(encoding="utf-8")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DURATION = re.compile(r', "duration_ms": \d+')


def shell(script: str, folder: Path) -> str:
    """Run a shell script as a reader would; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_AGENT"))}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GRAPH_AGENT_HOME": str(folder / "home"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    ran = subprocess.run(
        ["bash", "-e"],
        input=script,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def comparable(output: str) -> str:
    return DURATION.sub("", UUID.sub("ID", output))


def test_your_own_server_in_ten_minutes(tmp_path: Path) -> None:
    for name, content in re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    sessions = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(sessions) == 3
    exported = ""
    for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", "".join(sessions), re.MULTILINE):
        assert comparable(shell(f"{exported}\n{command}", tmp_path)) == comparable(expected), command
        if command.startswith("export "):
            exported = command


def test_the_ledger_can_be_imported_without_the_runtime() -> None:
    program = "import json, sys, graph_agent.ledger.server; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout)
    packages = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("graph_agent.")}
    assert packages <= {f"graph_agent.{name}" for name in ("clock", "db", "errors", "ledger", "models", "ports")}
    assert not {"langgraph", "fastapi", "openai", "google.genai"} & set(loaded)
