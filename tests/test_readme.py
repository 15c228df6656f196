"""The README: its session and its library example are run, its diagram is compared."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from graph_agent.graph import diagram
from graph_agent.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
COMMAND = Path(sys.executable).parent / "graph-agent"


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Return each `$` line of a session with the output below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_AGENT"))}
    return {**kept, "GRAPH_AGENT_HOME": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "200"}


def test_the_session_runs_as_it_is_printed(environment: dict[str, str]) -> None:
    session = blocks("console")[0]
    real: dict[str, str] = {}
    for command, expected in commands(session):
        for shown, found in real.items():
            command = command.replace(shown, found)
        words = shlex.split(command)
        assert words[0] == "graph-agent"
        ran = subprocess.run(
            [COMMAND, *words[1:]], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
        )
        real.update(zip(UUID.findall(expected), UUID.findall(ran.stdout), strict=True))
        for shown, found in real.items():
            expected = expected.replace(shown, found)
        assert ran.stdout == expected


def test_the_request_is_answered_as_it_is_printed(environment: dict[str, str]) -> None:
    ((command, expected),) = commands(blocks("console")[1])
    words = shlex.split(command)
    assert words[:3] == ["curl", "-s", "localhost:8000/api/chat"]
    body = words[words.index("-d") + 1]
    with subprocess.Popen([COMMAND, "serve", "--port", "0"], env=environment, text=True, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            url = next(found.group() for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
            answer = httpx.post(f"{url}/api/chat", content=body, headers={"content-type": "application/json"}, timeout=60)
        finally:
            server.terminate()
    assert UUID.sub("ID", json.dumps(answer.json())) == UUID.sub("ID", json.dumps(json.loads(expected)))


def test_the_pictures_are_drawn_from_the_table() -> None:
    assert blocks("mermaid") == [diagram.state_machine()]
    assert blocks("mermaid", (ROOT / "docs/architecture.md").read_text()) == [diagram.state_machine(), diagram.tool_turn()]


def test_the_library_example_runs(environment: dict[str, str]) -> None:
    (example,) = blocks("python")
    ran = subprocess.run([sys.executable, "-c", example], env=environment, text=True, capture_output=True, check=True)
    assert ran.stdout == example.rpartition("  # ")[2]


def test_the_readme_documents_every_variable_and_no_other() -> None:
    documented = set(re.findall(r"`([A-Z][A-Z_]+)`", README.partition("## Configuration")[2].partition("\n## ")[0]))
    known = {field.alias for field in Settings.model_fields.values()}
    assert documented == known


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_layers_of_the_page_are_those_that_import_linter_checks() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    page = " ".join((ROOT / "docs/architecture.md").read_text().split())
    assert " > ".join(contract["layers"]) in page
