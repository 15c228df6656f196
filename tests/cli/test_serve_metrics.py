"""`graph-agent serve`: the metrics and the access log of a live server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import httpx

from tests import fork_server
from tests.otlp_collector import collecting
from tests.serving import address_of, launch_header

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "serve",
    "--port",
    "0",
    "--model",
    "embedded",
    "--no-page",
    "--access-log",
    "--log-format",
    "json",
    "--metrics-port",
    "0",
)


def test_a_server_has_the_documented_metrics_and_logs_requests_without_their_query(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    webhook = {"GRAPH_AGENT_WEBHOOK_URL": "http://localhost:1/", "GRAPH_AGENT_WEBHOOK_SECRET": f"whsec_{'A' * 32}"}
    environment = {**os.environ, **webhook, "GRAPH_AGENT_HOME": str(home)}
    command = [fork_server.graph_agent(), *OPTIONS]
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors, env=environment) as server:
        try:
            url, metrics_url = address_of(server, log), address_of(server, log, "metrics:")
            with httpx.Client(base_url=url, headers=launch_header(home), trust_env=False, timeout=60) as client:
                assert client.post("/api/chat", json={"content": "add a task to call mom"}).status_code == 200
                assert client.post("/api/chat", json={"content": " "}).status_code == 422
                assert client.get("/healthz?token=a-secret").status_code == 200
                assert client.get("/metrics").status_code == 404
                assert client.get(metrics_url.replace("/metrics", "/healthz")).status_code == 404
            # Prometheus has no token.
            text = httpx.get(metrics_url, trust_env=False, timeout=60).text
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()
    for line in (
        'graph_agent_turns_total{outcome="SUCCESS:TASK_COMPLETED",status="completed"} 1.0',
        'graph_agent_turn_duration_seconds_count{category="SUCCESS"} 1.0',
        'graph_agent_tool_calls_total{mode="run",outcome="succeeded",tool="add_task"} 1.0',
        'graph_agent_refusals_total{reason="ERROR:USER_INPUT"} 1.0',
        "graph_agent_open_turns 0.0",
        "graph_agent_admitted_turns 0.0",
        "graph_agent_admission_queue 0.0",
        "graph_agent_approval_requests_open 0.0",
        'graph_agent_approval_notices_total{outcome="failed"} 0.0',
    ):
        assert line in text
    documented = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert [name for name in families if f"`{name}`" not in documented] == []
    for file in ("grafana/dashboard.json", "prometheus/alerts.yaml"):
        used = set(re.findall(r"graph_agent_\w+", (ROOT / "deploy" / file).read_text(encoding="utf-8")))
        assert used
        assert {name.removesuffix("_bucket") for name in used} <= set(families), file
    assert "a-secret" not in log.read_text(encoding="utf-8")
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    requests = [(line["method"], line["path"], line["status"]) for line in logged if line["logger"] == "graph_agent.access"]
    assert requests == [
        ("POST", "/api/chat", 200),
        ("POST", "/api/chat", 422),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 404),
        ("GET", "/healthz", 404),
        ("GET", "/metrics", 200),
    ]


def test_a_server_exports_traces_metrics_and_logs_with_one_configuration(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with collecting() as collected:
        variables = {
            "GRAPH_AGENT_HOME": str(home),
            "GRAPH_AGENT_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
            "OTEL_SERVICE_NAME": "ours",
        }
        command = [fork_server.graph_agent(), *OPTIONS, "--log-level", "info"]
        with log.open("wb") as errors, subprocess.Popen(command, stderr=errors, env={**os.environ, **variables}) as server:
            try:
                url, metrics_url = address_of(server, log), address_of(server, log, "metrics:")
                with httpx.Client(base_url=url, headers=launch_header(home), trust_env=False, timeout=60) as client:
                    assert client.post("/api/chat", json={"content": "add a task to call mom"}).status_code == 200
                    scraped = client.get(metrics_url).text
                server.terminate()
                assert server.wait(60) == 0
            finally:
                server.kill()
    assert collected.services == {"ours"}
    assert "invoke_agent graph-agent" in collected.spans
    assert {"graph_agent_turns", "graph_agent_turn_duration", "graph_agent_tool_calls"} <= collected.metrics
    assert {
        name.removesuffix("_total") for name in re.findall(r"^# TYPE (\S+) counter", scraped, re.MULTILINE)
    } <= collected.metrics
    assert collected.logs
    assert "call mom" not in str(collected.logs)
