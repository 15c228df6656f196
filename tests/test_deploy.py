"""The files in `deploy/`: the container, the replicas of Compose, the dashboard and the alert rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from graph_agent.settings import Settings

DEPLOY = Path(__file__).parents[1] / "deploy"


def test_every_panel_of_the_dashboard_has_a_place_of_its_own_and_queries_of_the_chosen_source() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    for panel in dashboard["panels"]:
        assert panel["description"]
        assert panel["targets"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${source}"
            assert target["expr"].count("(") == target["expr"].count(")")


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert hadolint is not None
    found = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_replicas_of_compose_can_write_only_to_their_own_volumes() -> None:
    services = read_compose()["services"]
    replicas = {name: service for name, service in services.items() if service["image"] == "graph-agent"}
    assert len(replicas) == 2
    homes = [volume for service in replicas.values() for volume in service["volumes"]]
    assert sorted(homes) == [f"{name}:/data" for name in sorted(replicas)]
    for service in replicas.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert float(service["stop_grace_period"].removesuffix("s")) >= Settings().timeout_seconds + 5
    proxy = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    assert set(re.findall(r"server (\S+) \S+:8000", proxy)) == set(replicas)


def test_compose_sets_only_variables_that_are_read_and_names_the_required_ones_in_the_example() -> None:
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    known = {field.alias for field in Settings.model_fields.values()}
    set_here = set(read_compose()["services"]["replica-1"]["environment"])
    assert set_here <= known
    required = set(re.findall(r"\$\{(\w+):\?", compose))
    assert required == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def read_compose() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return compose
