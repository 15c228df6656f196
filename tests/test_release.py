"""The workflows and forms of the repository, and the bill of materials of a release."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
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
    assert len(files) == 3


def test_a_release_checks_every_supported_python_before_it_publishes() -> None:
    jobs = read_workflow("release.yml")["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == list(PYTHONS)
    assert (jobs["check"]["needs"], jobs["publish"]["needs"]) == ("build", "check")


def test_ci_runs_on_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
    assert read_workflow("ci.yml")["jobs"]["check"]["strategy"]["matrix"]["python"] == named


def test_the_issue_forms_have_what_github_requires() -> None:
    forms = [file for file in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if file.name != "config.yml"]
    assert [form.name for form in forms] == ["bug.yml", "feature.yml"]
    for form in forms:
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert {"name", "description", "labels", "body"} == content.keys()
        fields = [field for field in content["body"] if field["type"] != "markdown"]
        assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in fields)
        assert len({field["id"] for field in fields}) == len(fields) > 1
        assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_files_that_the_security_policy_names_exist() -> None:
    policy = ROOT / ".github" / "SECURITY.md"
    linked = re.findall(r"\]\(([^)#]+)", policy.read_text(encoding="utf-8"))
    assert linked
    assert [link for link in linked if not (policy.parent / link).is_file()] == []


def test_the_hooks_before_a_commit_are_targets_of_make() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [hook["entry"] for hook in hooks if hook["entry"].removeprefix("make ") not in targets] == []


BY_HAND = {"help", "run", "format", "clean", "live", "agentdyn"}
"""The targets that serve, change files, or need a key or data."""


def reached(makefile: str, first: str) -> set[str]:
    """Return a target with those that it needs or makes."""
    found, waiting = set[str](), [first]
    while waiting:
        target = waiting.pop()
        if target in found or (rule := re.search(rf"^{re.escape(target)}:(.*)\n((?:\t.*\n)*)", makefile, re.MULTILINE)) is None:
            continue
        found.add(target)
        made = [name for line in re.findall(r"\$\(MAKE\) (.*)", rule[2]) for name in line.split()]
        waiting += [*rule[1].partition("##")[0].split(), *made]
    return found


def test_every_target_of_make_is_run_by_ci_or_nightly_or_needs_a_person() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    parts = re.search(r"^NIGHTLY := (.*)", makefile, re.MULTILINE)
    assert parts is not None
    makefile = makefile.replace("$(NIGHTLY)", parts[1]).replace("$(STAMP)", "").replace("$(PAGE)", "page")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert "make check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert targets - reached(makefile, "check") - reached(makefile, "nightly") == BY_HAND
    matrix = read_workflow("nightly.yml")["jobs"]["nightly"]["strategy"]["matrix"]["part"]
    assert [f"nightly-{part}" for part in matrix] == parts[1].split()


def test_only_the_job_that_publishes_may_write() -> None:
    for name in ("ci.yml", "nightly.yml", "release.yml"):
        workflow = read_workflow(name)
        assert workflow["permissions"] == {"contents": "read"}
        writing = [job for job, definition in workflow["jobs"].items() if "permissions" in definition]
        assert writing == (["publish"] if name == "release.yml" else [])


def test_every_action_is_pinned_by_digest() -> None:
    for name in ("ci.yml", "nightly.yml", "release.yml"):
        used = re.findall(r"uses: (.+)", (WORKFLOWS / name).read_text(encoding="utf-8"))
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


@pytest.mark.nightly
def test_the_bill_of_materials_has_what_is_shipped_in_the_pinned_versions_and_no_tool_of_developers(tmp_path: Path) -> None:
    target = tmp_path / "sbom.cdx.json"
    subprocess.run([sys.executable, str(ROOT / "deploy" / "sbom.py"), str(target)], capture_output=True, check=True)
    bom = json.loads(target.read_text(encoding="utf-8"))
    pins = (ROOT / "deploy/constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", pins, re.MULTILINE))
    found = {component["name"]: component["version"] for component in bom["components"]}
    assert bom["metadata"]["component"]["name"] == "graph-agent"
    assert found.items() <= pinned.items()
    assert {"langgraph", "sqlalchemy", "psycopg", "opentelemetry-sdk", "distributed"} <= found.keys()
    assert found.keys().isdisjoint({"pytest", "ruff", "mypy", "hatchling", "playwright"})
    assert all(component["externalReferences"][0]["hashes"] for component in bom["components"])
