"""The error of an unavailable database."""

from __future__ import annotations

from typing import Self

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

    @classmethod
    def caused_by(cls, error: BaseException, *, unknown: bool = False) -> Self:
        """Return the error for a driver's exception, which becomes its cause."""
        unavailable = cls(unknown=unknown)
        unavailable.__cause__ = error
        return unavailable
