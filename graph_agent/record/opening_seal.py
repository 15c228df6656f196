"""The seal of an opening row, which says that a holder of the key opened the decision."""

from __future__ import annotations

from typing import Any

from graph_agent.record.sealer import Sealer
from graph_agent.record.tables import decision_logs

SEALED_COLUMNS = [decision_logs.c[name] for name in ("decision_id", "conversation_id", "user_id", "message", "header")]
"""The columns that the seal covers, as `Sealer.opening` takes them."""

CHECKED_COLUMNS = [*SEALED_COLUMNS, decision_logs.c.opening_seal]
"""The columns that `has_valid_seal` reads."""


def has_valid_seal(row: Any, sealer: Sealer) -> bool:
    """Return True if an opening row with at least `CHECKED_COLUMNS` has the seal that `sealer` gives to it."""
    sealed = [getattr(row, column.name) for column in SEALED_COLUMNS]
    return sealer.accepts(row.opening_seal, lambda one: one.opening(*sealed))
