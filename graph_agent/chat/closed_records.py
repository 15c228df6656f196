"""The records of closed decisions, for a service whose callers get errors that may be shown."""

from __future__ import annotations

from graph_agent.errors import RecordUnavailableError, service_unavailable
from graph_agent.models.record import DecisionRecord
from graph_agent.record.audit_writer import AuditWriter


async def load_closed(audit: AuditWriter, decision_id: str) -> DecisionRecord | None:
    """Return the record of a decision; None if it is open or not kept. Raises `ServiceError` SERVICE_UNAVAILABLE."""
    try:
        loaded = await audit.load(decision_id)
    except RecordUnavailableError as exc:
        raise service_unavailable() from exc
    return loaded if isinstance(loaded, DecisionRecord) else None
