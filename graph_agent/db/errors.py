"""The error of an unavailable database."""

from __future__ import annotations

from graph_agent.errors import GraphAgentError


class DatabaseUnavailableError(GraphAgentError):
    """The database is locked, full, read-only, unreachable or out of connections; a retry may succeed.

    `unknown` is true if a commit was sent and not answered: the transaction may have taken effect. Otherwise it was
    rolled back.
    A violated constraint is reported by `sqlalchemy.exc.IntegrityError` instead.
    """

    def __init__(self, message: str = "the database is not available", *, unknown: bool = False) -> None:
        self.unknown = unknown
        super().__init__(message)
