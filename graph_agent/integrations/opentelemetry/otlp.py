"""Export of spans and log records over OTLP/HTTP. Needs the extra `otel`, so it is imported only where it is switched on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

from opentelemetry import context
from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

LAST_SPANS_SECONDS = 2.0
"""The time that a process waits for the collector at its end. Spans that are not exported by then are lost."""


@asynccontextmanager
async def open_tracing() -> AsyncGenerator[Tracer]:
    """Open a tracer that exports spans in batches and from its own thread; flush it on leaving."""
    provider = TracerProvider(resource=service_resource())
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield provider.get_tracer("graph_agent")
    finally:
        await asyncio.to_thread(_shut_down, provider, exporter)


def service_resource() -> Resource:
    """Return what spans, metrics and log records say about this process."""
    # The detector reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES; they take precedence over our own name.
    return Resource({"service.name": "graph-agent"}).merge(OTELResourceDetector().detect())


@contextmanager
def open_log_handler() -> Iterator[logging.Handler]:
    """Open a handler that exports log records in batches and from its own thread; flush it on leaving.

    A record has the text that the handler's formatter gives it.
    """
    provider, exporter = LoggerProvider(resource=service_resource(), shutdown_on_exit=False), OTLPLogExporter()
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    try:
        yield CollectorHandler(provider.get_logger("graph_agent"))
    finally:
        _shut_down(provider, exporter)


def _shut_down(provider: TracerProvider | LoggerProvider, exporter: OTLPSpanExporter | OTLPLogExporter) -> None:
    """Send what waits, for a limited time."""
    sending = threading.Thread(target=provider.shutdown)
    sending.start()
    sending.join(LAST_SPANS_SECONDS)
    if sending.is_alive():
        exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no types
        sending.join()


class CollectorHandler(logging.Handler):
    """Gives each record to OpenTelemetry, with the span during which it was logged."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        # What the exporter says about a failed export would be exported next.
        if not record.name.startswith(("opentelemetry", "urllib3")):
            # The steps of both scales are equal: DEBUG is 10 and 5, INFO 20 and 9, CRITICAL 50 and 21.
            severity = SeverityNumber(min(21, max(1, record.levelno // 10 * 4 + 1)))
            self._logger.emit(
                LogRecord(
                    timestamp=int(record.created * 1e9),
                    context=context.get_current(),
                    severity_number=severity,
                    severity_text=record.levelname,
                    body=self.format(record),
                    attributes={"logger.name": record.name},
                )
            )
