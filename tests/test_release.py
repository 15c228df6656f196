"""The workflows of the repository and the bill of materials of a release."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.package_check import PYTHONS

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
WORKFLOWS = ROOT / ".github" / "workflows"


def read_workflow(name: str) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return workflow


def test_actionlint_has_no_finding() -> None:
    files = [str(file) for file in sorted(WORKFLOWS.glob("*.yml"))]
    found = subprocess.run([str(BIN / "actionlint"), *files], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
    assert len(files) == 2


def test_a_release_checks_every_supported_python_before_it_publishes() -> None:
    jobs = read_workflow("release.yml")["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == list(PYTHONS)
    assert (jobs["check"]["needs"], jobs["publish"]["needs"]) == ("build", "check")


def test_only_the_job_that_publishes_may_write() -> None:
    for name in ("ci.yml", "release.yml"):
        workflow = read_workflow(name)
        assert workflow["permissions"] == {"contents": "read"}
        writing = [job for job, definition in workflow["jobs"].items() if "permissions" in definition]
        assert writing == (["publish"] if name == "release.yml" else [])


def test_every_action_is_pinned_by_digest() -> None:
    for name in ("ci.yml", "release.yml"):
        used = re.findall(r"uses: (.+)", (WORKFLOWS / name).read_text(encoding="utf-8"))
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


@pytest.mark.slow
def test_the_bill_of_materials_has_what_is_shipped_in_the_pinned_versions_and_no_tool_of_developers(tmp_path: Path) -> None:
    target = tmp_path / "sbom.cdx.json"
    subprocess.run([sys.executable, str(ROOT / "deploy" / "sbom.py"), str(target)], capture_output=True, check=True)
    bom = json.loads(target.read_text(encoding="utf-8"))
    pinned = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    found = {component["name"]: component["version"] for component in bom["components"]}
    assert bom["metadata"]["component"]["name"] == "graph-agent"
    assert found.items() <= pinned.items()
    assert {"langgraph", "sqlalchemy", "psycopg", "pyarrow", "opentelemetry-sdk", "distributed"} <= found.keys()
    assert found.keys().isdisjoint({"pytest", "ruff", "mypy", "hatchling", "playwright"})
    assert all(component["externalReferences"][0]["hashes"] for component in bom["components"])
