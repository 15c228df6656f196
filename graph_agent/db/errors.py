"""What a caller must tell apart when the database does not do what was asked."""

from __future__ import annotations

from graph_agent.errors import GraphAgentError


class DatabaseUnavailableError(GraphAgentError):
    """The database is locked, full, read-only, gone or out of connections; asking again later may help.

    `unknown` is true when a commit was sent and never answered: the transaction may have taken effect. Otherwise it was rolled
    back. A broken constraint is not this: `sqlalchemy.exc.IntegrityError` passes through.
    """

    def __init__(self, message: str = "the database is not available", *, unknown: bool = False) -> None:
        self.unknown = unknown
        super().__init__(message)
