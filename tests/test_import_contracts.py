"""The import contracts of pyproject.toml report an import where it does not belong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

PLANTED = {
    ("graph_agent.net.addresses", "fastapi"),
    ("graph_agent.reply.text", "sqlalchemy"),
    ("graph_agent.policy.consent", "mcp"),
    ("graph_agent.turn.recorder", "langgraph"),
    ("graph_agent.audit.findings", "langchain_core"),
    ("graph_agent.policy.guard", "cedarpy"),
    ("graph_agent.policy.compiled", "z3"),
    ("graph_agent.chat.stream", "google"),
    ("graph_agent.cli.show", "mcp"),
    ("graph_agent.replays.report", "graph_agent.task_server"),
    ("graph_agent.api.chat", "ag_ui"),
    ("graph_agent.api.connections", "graph_agent.integrations.agui"),
    ("graph_agent.bootstrap.copying", "graph_agent.integrations.opentelemetry"),
    ("graph_agent.cli.demo", "graph_agent.integrations.langchain"),
    ("graph_agent.cli.doctor", "opentelemetry"),
    ("graph_agent.integrations.agui", "graph_agent.integrations.langchain"),
}
"""Modules, and what each of them must not import."""


def test_every_import_that_is_planted_is_reported_and_nothing_else(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "graph_agent", tmp_path / "graph_agent", ignore=shutil.ignore_patterns("page", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, imported in PLANTED:
        with tmp_path.joinpath(*module.split(".")).with_suffix(".py").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    program = Path(sys.executable).with_name("lint-imports")
    # It breaks its lines at the width of the terminal.
    wide = {**os.environ, "COLUMNS": "200"}
    ended = subprocess.run([program, "--no-cache"], cwd=tmp_path, env=wide, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert set(re.findall(r"(graph_agent[\w.]+) -> ([\w.]+)", ended.stdout)) == PLANTED
