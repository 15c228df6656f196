"""An OpenTelemetry collector for tests, which keeps what it receives over OTLP/HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collected:
    """What a collector has received, and its address."""

    url: str = ""
    services: set[str] = field(default_factory=set)
    spans: list[str] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    logs: list[tuple[str, str]] = field(default_factory=list)
    """The severity and the text of each log record."""

    def add(self, path: str, body: bytes) -> None:
        for resource in getattr(self, f"_read_{path.rpartition('/')[2]}")(body):
            self.services |= {one.value.string_value for one in resource.attributes if one.key == "service.name"}

    def _read_traces(self, body: bytes) -> Iterator[Any]:
        for found in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.spans += [span.name for scope in found.scope_spans for span in scope.spans]
            yield found.resource

    def _read_metrics(self, body: bytes) -> Iterator[Any]:
        for found in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.metrics |= {metric.name for scope in found.scope_metrics for metric in scope.metrics}
            yield found.resource

    def _read_logs(self, body: bytes) -> Iterator[Any]:
        for found in ExportLogsServiceRequest.FromString(body).resource_logs:
            records = [record for scope in found.scope_logs for record in scope.log_records]
            self.logs += [(record.severity_text, record.body.string_value) for record in records]
            yield found.resource


@contextmanager
def collecting() -> Iterator[Collected]:
    """Run a collector on this machine."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collected.add(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    collected.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
