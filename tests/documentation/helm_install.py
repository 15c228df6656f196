"""The stand-in for `helm install`: it renders the chart, and checks the resources against the schemas of Kubernetes.

python -m tests.documentation.helm_install install NAME CHART --set existingSecret=NAME
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import helm_python
import kubernetes_validate
import yaml


def helm(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("helm", allow_abbrev=False)
    install = parser.add_subparsers(required=True).add_parser("install", allow_abbrev=False)
    install.add_argument("name", type=_release_name)
    install.add_argument("chart")
    install.add_argument("--set", dest="values", type=helm_python.parse_set_string, action="append", default=[])
    install.add_argument("--set-file", dest="values", type=helm_python.parse_set_file, action="append")
    given = parser.parse_args(arguments)
    values: dict[str, Any] = {key: value for one in given.values for key, value in one.items()}
    with helm_python.Chart.load(given.chart) as chart:
        files = chart.render(values, name=given.name, namespace="default", is_install=True)
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    for resource in filter(None, (one for text in texts for one in yaml.safe_load_all(text))):
        kubernetes_validate.validate(resource, "1.34", strict=True)
        print(resource["kind"], resource["metadata"]["name"])


def _release_name(text: str) -> str:
    helm_python.validate_release_name(text)
    return text


if __name__ == "__main__":
    helm(sys.argv[1:])
