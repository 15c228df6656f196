"""OpenTelemetry metrics of a server, in the format of Prometheus. docs/monitoring.md lists the names. Needs the extra `otel`.

Labels have few values: categories, codes and names of tools; no ids, no users, no texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from graph_agent.due.depth import Depth
from graph_agent.due.table import Lane
from graph_agent.integrations.opentelemetry.otlp import LAST_SPANS_SECONDS, service_resource
from graph_agent.models.decision import ClosedRequest
from graph_agent.models.llm import TokenUsage
from graph_agent.models.record import CallDisposition, DecisionRecord, RecordHeader
from graph_agent.models.tools import UNKNOWN_CODES, ToolResult
from graph_agent.turn.hooks import HookedToolCall, TurnHook

Readings = Mapping[str, Callable[[], Mapping[str, int]]]
"""The name of an instrument -> a function that returns its values, by the value of its label."""

DURATION_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
ANSWER_BUCKETS = (10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0)
"""People answer within seconds or days; a request waits for 30 days at most."""


_OF_DUE_WORK = (
    ("graph_agent_due", "rows", "Work that waits, of all processes"),
    ("graph_agent_due_late_seconds", "late", "The seconds for which the oldest work has been due"),
    ("graph_agent_due_stuck", "stuck", "Work that was tried for the last time"),
)
"""The names of the gauges, the field of `Depth`, and the descriptions."""


def _observed_depths(
    read: Callable[[], Mapping[Lane, Depth]], field: str
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(getattr(depth, field), {"kind": kind, "lane": lane}) for (kind, lane), depth in read().items()]

    return observe


class ServerMetrics(TurnHook):
    """The instruments of one server, and the text that Prometheus reads. It is a hook of every turn, which it counts."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(
        self,
        *,
        gauges: Readings,
        refusals: Callable[[], Mapping[str, int]],
        notices: Callable[[], Mapping[str, int]],
        due: Callable[[], Mapping[Lane, Depth]],
        export: bool = False,
    ) -> None:
        """The functions are read when Prometheus asks. With `export` the metrics are also sent over OTLP/HTTP."""
        self._registry = CollectorRegistry()
        readers: list[MetricReader] = [PrometheusMetricReader(True, scope_info_enabled=False, registry=self._registry)]
        if export:
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        self._provider = MeterProvider(readers, resource=service_resource(), shutdown_on_exit=False)
        meter = self._provider.get_meter("graph_agent")
        self.turns = meter.create_counter("graph_agent_turns", description="Ended turns")
        self.duration = meter.create_histogram(
            "graph_agent_turn_duration",
            unit="s",
            description="Time from the opening row of a turn to its end",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self.tokens = meter.create_counter("graph_agent_tokens", description="Tokens of model calls")
        self.unknown_outcomes = meter.create_counter(
            "graph_agent_unknown_outcomes", description="Tool calls with an unknown outcome at the end of their turn"
        )
        self.tool_calls = meter.create_counter("graph_agent_tool_calls", description="Tool calls, previews and settlements")
        self.stopped_calls = meter.create_counter(
            "graph_agent_stopped_calls", description="Calls that were not sent, by the gate that stopped them"
        )
        self.shadow = meter.create_counter(
            "graph_agent_shadow_verdicts", description="Calls whose decision a rule in the shadow would have changed"
        )
        self.ended_requests = meter.create_counter(
            "graph_agent_approval_requests_ended", description="Approval requests that were closed, by their end"
        )
        self.answers = meter.create_histogram(
            "graph_agent_approval_answer",
            unit="s",
            description="Time from an approval request to the answer of a person",
            explicit_bucket_boundaries_advisory=ANSWER_BUCKETS,
        )

        def observed(read: Callable[[], Mapping[str, int]], label: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
            return lambda _: [Observation(value, {label: name} if name else {}) for name, value in read().items()]

        meter.create_observable_counter(
            "graph_agent_refusals", [observed(refusals, "reason")], description="Requests for which no turn was started"
        )
        meter.create_observable_counter(
            "graph_agent_approval_notices", [observed(notices, "outcome")], description="Tries to post a notice to the webhook"
        )
        for name, field, description in _OF_DUE_WORK:
            meter.create_observable_gauge(name, [_observed_depths(due, field)], description=description)
        for name, read in gauges.items():
            meter.create_observable_gauge(name, [observed(read, "")])

    def close(self) -> None:
        """Send the last metrics, for a limited time."""
        self._provider.shutdown(timeout_millis=LAST_SPANS_SECONDS * 1000)

    def text(self) -> bytes:
        """Return the metrics of this process."""
        return generate_latest(self._registry)

    @staticmethod
    def merged(texts: Mapping[str, str]) -> bytes:
        """Return the metrics of several processes. Each sample gets the label `worker`, the key of its text."""
        families: dict[str, Metric] = {}
        for worker, text in texts.items():
            for found in text_string_to_metric_families(text):
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                family.samples += [one._replace(labels={**one.labels, "worker": worker}) for one in found.samples]
        return generate_latest(_Collected(families.values()))

    def after_turn(self, turn: RecordHeader, outcome: DecisionRecord | BaseException) -> None:  # noqa: ARG002 (the interface has it)
        if not isinstance(outcome, DecisionRecord):
            return
        category = outcome.decision.outcome_category
        labels = {"outcome": "" if category is None else category.value, "status": outcome.status.value}
        self.turns.add(1, labels)
        self.duration.record(outcome.duration_ms / 1000, {"category": labels["outcome"].partition(":")[0]})
        usage = outcome.usage or TokenUsage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
        counts = {"input": usage.prompt_tokens, "output": usage.completion_tokens, "cached": usage.cached_tokens}
        for kind, tokens in counts.items():
            self.tokens.add(tokens or 0, {"kind": kind})
        for call in outcome.invocations:
            if call.gate is not None:
                self.stopped_calls.add(1, {"gate": call.gate, "disposition": call.disposition})
            for verdict in call.shadow:
                self.shadow.add(1, {"tool": call.tool_name, "rule": verdict.rule, "decision": verdict.decision})

        for call in outcome.invocations:
            if call.disposition is CallDisposition.EXECUTED and call.error_code in UNKNOWN_CODES:
                self.unknown_outcomes.add(1, {"tool": call.tool_name})

        if (closed := outcome.header.context.approval) is not None:
            self._count_request(closed)

    def _count_request(self, closed: ClosedRequest) -> None:
        """Count a request by its closing decision, of which there is one, whichever replica runs it."""
        self.ended_requests.add(1, {"end": closed.end})
        for answer in closed.answers:
            waited = answer.answered_at - closed.request.action.created_at
            self.answers.record(max(0.0, waited.total_seconds()), {"answer": "approved" if answer.approve else "denied"})

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None:
        self.tool_calls.add(1, {"tool": call.tool_name, "mode": call.mode, "outcome": _tool_outcome(outcome)})


class _Collected(Collector):
    """Families that were collected before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _tool_outcome(outcome: Any) -> str:
    """Return the outcome of a tool call as the value of a label: "unknown" if it may or may not have taken effect."""
    if not isinstance(outcome, ToolResult) or outcome.unknown:
        return "unknown"
    return "succeeded" if outcome.success else "failed"
