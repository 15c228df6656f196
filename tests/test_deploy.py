"""The files in `deploy/`: the container, the replicas of Compose, the dashboard and the alert rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from sqlalchemy import make_url

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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_has_no_finding_in_the_unit_and_gives_turns_their_time(tmp_path: Path) -> None:
    unit = (DEPLOY / "graph-agent.service").read_text(encoding="utf-8")
    installed = tmp_path / "graph-agent.service"
    installed.write_text(unit.replace("/opt/graph-agent/bin/graph-agent", sys.executable), encoding="utf-8")
    # It also succeeds when it has found something.
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert float(stop) >= Settings().timeout_seconds + 5


def test_the_replicas_of_compose_can_write_only_to_their_own_volumes() -> None:
    services = read_compose()["services"]
    replicas = {name: service for name, service in services.items() if name.startswith("replica-")}
    assert len(replicas) == 2
    for name, service in replicas.items():
        assert service["volumes"] == [f"{name}:/data", "./config:/etc/graph-agent:ro"]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert float(service["stop_grace_period"].removesuffix("s")) >= Settings().timeout_seconds + 5
    proxy = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    assert set(re.findall(r"server (\S+) \S+:8000", proxy)) == set(replicas)


def test_compose_activates_rules_only_where_the_operator_asks_for_it() -> None:
    services = read_compose()["services"]
    once, replica = services["activate"], services["replica-1"]
    assert (once["profiles"], once["restart"], once["command"][:3]) == (["activate"], "no", ["rules", "activate", "--reason"])
    assert once["environment"] == replica["environment"]
    assert "./config:/etc/graph-agent:ro" in once["volumes"]


SETTINGS = {str(field.alias) for field in Settings.model_fields.values()}
FIXED = {"GRAPH_AGENT_HOME", "DATABASE_URL"}
"""The image and Compose decide these: the volume of a replica, and the database beside it."""


def test_compose_passes_every_setting_to_each_replica() -> None:
    services = read_compose()["services"]
    for name in ("replica-1", "replica-2"):
        passed = services[name]["environment"]
        # The last one is read by uvicorn: whose X-Forwarded-For it believes.
        assert set(passed) == SETTINGS - {"GRAPH_AGENT_HOME"} | {"FORWARDED_ALLOW_IPS"}
        for setting in SETTINGS - FIXED:
            assert re.fullmatch(rf"\$\{{{setting}(:-[^}}]*|:\?[^}}]+)\}}", passed[setting]), setting
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "GRAPH_AGENT_HOME=/data" in dockerfile
    assert all(f"{name}:/data" in services[name]["volumes"] for name in ("replica-1", "replica-2"))


def test_the_example_names_every_setting_and_has_the_required_ones_empty() -> None:
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:# )?([A-Z_]+)=", example, re.MULTILINE))
    assert SETTINGS - FIXED - named == set()
    required = set(re.findall(r"\$\{(\w+):\?", compose))
    # A replica takes the key of the tokens or the address of keys, and refuses to start without both.
    assert required | {"GRAPH_AGENT_JWT_SECRET"} == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def test_the_files_that_settings_name_are_those_that_are_mounted() -> None:
    folder = "/etc/graph-agent"
    assert f"./config:{folder}:ro" in read_compose()["services"]["replica-1"]["volumes"]
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    files = {str(field.alias) for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)} - FIXED
    more = {"GRAPH_AGENT_PAGE_LOGO", "GRAPH_AGENT_APPROVER_KEYS"}
    assert files == {"GRAPH_AGENT_CONSTITUTION", "GRAPH_AGENT_CONDITIONS", "GRAPH_AGENT_MCP"} | more
    assert all(re.search(rf"^# {file}={folder}/\S+$", example, re.MULTILINE) for file in files)


def test_the_image_has_the_extras_that_settings_need() -> None:
    (extras,) = re.findall(r"graph-agent\[([a-z,]+)\] @", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert {"postgresql", "otel", "policy", "prove"} <= set(extras.split(","))


def test_no_other_module_reads_the_environment() -> None:
    package = DEPLOY.parent / "graph_agent"
    reading = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\benviron\b|\bgetenv\(", path.read_text(encoding="utf-8"))
    }
    # One passes it to the file of MCP servers, which names variables; the process of functions has their database in it. TZ is
    # a variable of the system.
    assert reading == {"settings.py", "bootstrap/toolbox.py", "tools/function_server.py", "cli/local_zone.py"}


def test_a_client_cannot_choose_the_address_that_the_proxy_reports() -> None:
    proxy = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    assert "http-request set-header X-Forwarded-For %[src]" in proxy
    assert "option forwardfor" not in proxy
    assert "ports" not in read_compose()["services"]["replica-1"]


def test_every_package_of_the_image_has_a_hash() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    installations = [part for part in re.split(r"&&|\n", dockerfile) if re.search(r"\b(pip install|uv build)\b", part)]
    assert len(installations) == 3
    assert all("--require-hashes" in part for part in installations)


def test_npm_runs_no_script_of_a_package() -> None:
    ui = DEPLOY.parent / "ui"
    assert "ignore-scripts=true" in (ui / ".npmrc").read_text(encoding="utf-8").splitlines()
    packages = json.loads((ui / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    # Its script only checks and shortens the way to the binary, which is a package of its own.
    assert [name for name, package in packages.items() if package.get("hasInstallScript")] == ["node_modules/esbuild"]


@pytest.mark.postgresql
def test_the_replicas_of_compose_get_a_role_without_rights_beyond_their_own_database(postgresql_url: str) -> None:
    services = read_compose()["services"]
    url = services["replica-1"]["environment"]["DATABASE_URL"]
    assert re.match(r"postgresql://graph_agent:\$\{DATABASE_PASSWORD:", url)
    assert "./postgres.sh:/docker-entrypoint-initdb.d/graph-agent.sh:ro" in services["postgres"]["volumes"]
    admin = make_url(postgresql_url)
    environment = {
        **os.environ,
        "PGHOST": str(admin.host or admin.query.get("host", "")),
        "PGPORT": str(admin.port or ""),
        "PGPASSWORD": admin.password or "",
        "POSTGRES_USER": admin.username or "postgres",
        "DATABASE_PASSWORD": 'it\'s a "password"',
    }
    role = (
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls FROM pg_roles WHERE rolname = 'graph_agent'"
    )
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'graph_agent'"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        try:
            subprocess.run(["sh", DEPLOY / "postgres.sh"], env=environment, check=True)
            assert connection.execute(role).fetchone() == (False,) * 5
            assert connection.execute(owner).fetchone() == ("graph_agent",)
        finally:
            connection.execute("DROP DATABASE IF EXISTS graph_agent")
            connection.execute("DROP ROLE IF EXISTS graph_agent")


def read_compose() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return compose
