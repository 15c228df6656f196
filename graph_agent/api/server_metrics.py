"""The metrics of a server. They need the extra `otel`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.bootstrap.extras import import_extra
from graph_agent.bootstrap.runtime import Runtime


class ServerMetrics(Protocol):
    """The metrics that the routes serve: a class of the integration with OpenTelemetry, which nothing imports."""

    media_type: str

    def text(self) -> bytes: ...

    def merged(self, texts: Mapping[str, str]) -> bytes: ...

    def close(self) -> None: ...


def server_metrics(runtime: Runtime, admission: TurnAdmission) -> ServerMetrics:
    """Return the metrics of a server, which count its turns from now on. Raises `ConfigurationError` without the extra."""
    metrics = import_extra("graph_agent.integrations.opentelemetry.metrics", "otel", "--metrics-port")

    def refusals() -> Counter[str]:
        return Counter({"BUSY": admission.refused}) + Counter({key.value: n for key, n in runtime.chat.refusals.items()})

    found = metrics.ServerMetrics(
        gauges={
            "graph_agent_open_turns": lambda: {"": runtime.engine.open_turns},
            "graph_agent_admitted_turns": lambda: {"": admission.open.total},
            "graph_agent_admission_queue": lambda: {"": admission.open.total - admission.running.total},
        },
        refusals=refusals,
        export=runtime.settings.otel,
    )
    runtime.engine.add_hook(lambda: found)
    served: ServerMetrics = found
    return served
