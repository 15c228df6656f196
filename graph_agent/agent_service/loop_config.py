"""The limits of one turn of the agent service."""

from __future__ import annotations

from pydantic import Field

from graph_agent.models.base import Frozen

MAX_TURN_SECONDS = 120


class AgentLoopConfig(Frozen):
    """The limits of one turn. Only reads are retried: a mutation is never sent twice, the ledger settles it."""

    max_iterations: int = Field(default=15, ge=1, le=50)
    iteration_timeout: int = Field(default=30, gt=0)
    """The time limit of one model call, or of one tool call, in seconds."""
    enable_retry: bool = False
    retry_attempts: int = Field(default=1, ge=0)
    """The number of retries of a failed read; ignored unless `enable_retry` is set."""
    turn_timeout: float | None = Field(default=None, gt=0, le=600)
    """The time limit of the whole turn in seconds. None means `max_iterations` times `iteration_timeout`, at most 120."""

    @property
    def turn_seconds(self) -> float:
        return self.turn_timeout or min(self.max_iterations * self.iteration_timeout, MAX_TURN_SECONDS)

    @property
    def read_retries(self) -> int:
        return self.retry_attempts if self.enable_retry else 0
