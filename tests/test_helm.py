"""The Helm chart: rendered by Helm's own library, and checked against the schemas of Kubernetes. No cluster is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml
from helm_python.errors import HelmRenderError, HelmValuesError

from graph_agent.settings import Settings

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "graph-agent"
SECRETS = {"DATABASE_URL": "postgresql://a", "GRAPH_AGENT_SECRET": "c", "LOG_SIGNING_KEY": "l" * 32}
VALUES: dict[str, dict[str, Any]] = {
    "own secret": {"secrets": SECRETS},
    "existing secret": {"existingSecret": "ours"},
    "everything": {
        "secrets": SECRETS,
        "constitution": "# Rules\n\n- add_task: Adds a task\n",
        "mcp": '{"mcpServers": {"notes": {"command": "python", "args": ["/etc/graph-agent/notes.py"]}}}\n',
        "conditions": "permit (principal, action, resource);\n",
        "files": {"notes.py": "print('notes')\n"},
        "autoscaling": {"enabled": False},
        "storage": {"className": "fast"},
        "networkPolicy": {"from": [{"podSelector": {}}], "egress": [{"ports": [{"port": 8080}]}]},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "serviceAccount": {"annotations": {"example.org/role": "reader"}},
    },
}


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the resources of the chart with these values."""
    with helm.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="demo", namespace="prod")
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    return [resource for text in texts for resource in yaml.safe_load_all(text) if resource]


def of_kind(values: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (resource for resource in render(values) if resource["kind"] == kind)
    return found


def pods(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the specifications of the pods of the replicas and of the migration."""
    return [of_kind(values, kind)["spec"]["template"]["spec"] for kind in ("StatefulSet", "Job")]


@pytest.mark.parametrize("version", ["1.27", "1.34"])
def test_rules_are_activated_after_an_upgrade_where_the_operator_asks_for_it(version: str) -> None:
    everything = {**VALUES["everything"], "rules": {"activate": True, "reason": "ask from 50", "allowNew": True}}
    (job,) = (one for one in render(everything) if one["metadata"]["name"] == "demo-graph-agent-activation")
    kubernetes_validate.validate(job, version, strict=True)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["rules", "activate", "--reason", "ask from 50", "--allow-new"]
    assert {"name": "GRAPH_AGENT_CONDITIONS", "value": "/etc/graph-agent/policy.cedar"} in container["env"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"


def test_lint_has_no_warning_and_no_error() -> None:
    report = helm.lint(str(CHART), values={"secrets": SECRETS})
    assert report["errors"] == []
    assert [message["error"] for message in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", ["1.27", "1.34"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_resource_matches_the_schema_of_kubernetes(values: dict[str, Any], version: str) -> None:
    resources = render(values)
    for resource in resources:
        kubernetes_validate.validate(resource, version, strict=True)
    kinds = {resource["kind"] for resource in resources}
    assert {"StatefulSet", "Job", "Service", "ServiceAccount", "PodDisruptionBudget"} <= kinds
    assert ("HorizontalPodAutoscaler" in kinds) is values.get("autoscaling", {}).get("enabled", True)
    assert ("Secret" in kinds) is ("secrets" in values)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_the_containers_are_not_root_and_write_to_their_volumes_only(values: dict[str, Any]) -> None:
    for pod in pods(values):
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {"/data", "/tmp"}


def test_the_services_select_the_replicas_and_not_the_migration() -> None:
    resources = render(VALUES["own secret"])
    replicas, migration = (
        of_kind(VALUES["own secret"], kind)["spec"]["template"]["metadata"] for kind in ("StatefulSet", "Job")
    )
    for service in (resource for resource in resources if resource["kind"] in ("Service", "PodDisruptionBudget")):
        selector = service["spec"]["selector"]
        labels = selector.get("matchLabels", selector).items()
        assert labels <= replicas["labels"].items()
        assert not labels <= migration["labels"].items()


def test_a_replica_has_time_to_finish_its_turns_and_a_place_for_its_constitution() -> None:
    values = {**VALUES["everything"], "timeoutSeconds": 45}
    replica, _ = pods(values)
    assert replica["terminationGracePeriodSeconds"] >= 45 + 5
    (container,) = replica["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["GRAPH_AGENT_TIMEOUT_SECONDS"] == "45"
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "config")
    files = {f"{mount['mountPath']}/{name}": text for name, text in of_kind(values, "ConfigMap")["data"].items()}
    assert files[variables["GRAPH_AGENT_CONSTITUTION"]] == values["constitution"]
    assert files[variables["GRAPH_AGENT_MCP"]] == values["mcp"]
    assert files[variables["GRAPH_AGENT_CONDITIONS"]] == values["conditions"]
    assert files["/etc/graph-agent/notes.py"] == "print('notes')\n"
    assert variables.keys() <= {field.alias for field in Settings.model_fields.values()}


def test_a_changed_file_restarts_the_replicas() -> None:
    annotations = [
        of_kind({"existingSecret": "ours", **changed}, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        for changed in (
            {},
            {"constitution": "# One\n"},
            {"constitution": "# Two\n"},
            {"mcp": "{}"},
            {"conditions": "permit (principal, action, resource);"},
            {"files": {"a": "b"}},
        )
    ]
    assert len({one["checksum/config"] for one in annotations}) == 6


def test_the_network_policy_is_on_and_allows_only_what_a_replica_needs() -> None:
    policy = of_kind(VALUES["own secret"], "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    api, metrics = policy["ingress"]
    assert (api, metrics["ports"]) == ({"ports": [{"port": "http"}]}, [{"port": "metrics"}])
    # Pods of the cluster, whichever: nobody else reads the metrics.
    assert metrics["from"] == [{"namespaceSelector": {}}]
    dns, services = policy["egress"]
    assert {rule["port"] for rule in dns["ports"]} == {53}
    assert {rule["port"] for rule in services["ports"]} == {443, 5432}
    assert "169.254.0.0/16" in services["to"][0]["ipBlock"]["except"]
    (selected,) = policy["podSelector"]["matchExpressions"]
    for kind in ("StatefulSet", "Job"):
        labels = of_kind(VALUES["own secret"], kind)["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] in selected["values"]


def test_the_metrics_are_on_a_port_that_the_service_of_the_api_does_not_have() -> None:
    (container,) = pods(VALUES["own secret"])[0]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    dockerfile = (CHART.parents[1] / "Dockerfile").read_text(encoding="utf-8")
    assert f'"--port", "{ports["http"]}", "--metrics-port", "{ports["metrics"]}"' in dockerfile
    api, replicas = (resource for resource in render(VALUES["own secret"]) if resource["kind"] == "Service")
    assert [port["name"] for port in api["spec"]["ports"]] == ["http"]
    assert [port["name"] for port in replicas["spec"]["ports"]] == ["http", "metrics"]


def test_values_without_secrets_or_with_a_misspelt_name_are_refused() -> None:
    with pytest.raises(HelmRenderError, match=r"set existingSecret, or secrets\.GRAPH_AGENT_SECRET"):
        render({"secrets": {**SECRETS, "GRAPH_AGENT_SECRET": ""}})
    with pytest.raises(HelmValuesError, match="'replica' not allowed"):
        render({"secrets": SECRETS, "replica": 3})


@pytest.mark.parametrize("setting", sorted({str(field.alias) for field in Settings.model_fields.values()}))
def test_every_setting_reaches_the_replicas(setting: str) -> None:
    # A secret comes from the Secret, as a whole; every other variable is one of the container.
    replica, _ = pods({**VALUES["existing secret"], "settings": {setting: "value"}})
    (container,) = replica["containers"]
    assert {"name": setting, "value": "value"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "ours"}}]
