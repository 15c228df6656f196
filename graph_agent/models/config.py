"""The settings of the engine."""

from __future__ import annotations

from datetime import timedelta
from operator import not_
from typing import Annotated

from pydantic import Field

from graph_agent.models.approval import MAX_APPROVAL_HOURS
from graph_agent.models.base import Frozen
from graph_agent.models.decision import AfterYes
from graph_agent.models.llm import DEFAULT_TEMPERATURE, MAX_RESPONSE_TOKENS

MAX_TOOL_ITERATIONS = 5
DEFAULT_CALL_SECONDS = 10.0
"""The time limit of one tool call, if neither its server nor the engine has another."""
Rounds = Annotated[int, Field(ge=1, le=50)]
"""The limit for the rounds of tool calls of one turn."""


class TokenLimits(Frozen):
    """Limits on the tokens of model calls, checked before each call: one that has begun may pass them."""

    turn: int | None = Field(default=None, ge=1)
    """The limit of one turn."""
    day: int | None = Field(default=None, ge=1)
    """The limit of a user in one day of `time_zone`."""
    time_zone: str = "UTC"


class AgentEngineConfig(Frozen, kw_only=False):
    """The engine's settings; each of them is stored in the record."""

    max_iterations: Rounds = MAX_TOOL_ITERATIONS
    include_history_messages: int = Field(default=10, ge=0)
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    timeout_seconds: float = Field(default=30, gt=0)
    """The whole turn's deadline."""
    max_tokens: int = Field(default=MAX_RESPONSE_TOKENS, gt=0)
    iteration_timeout: float | None = Field(default=None, gt=0)
    """Limit in seconds for one model call or one tool call; None uses the limits of the adapter and the executor."""
    read_retries: int = Field(default=0, ge=0)
    """Number of retries of a failed read. Writes are never retried: they are settled through the ledger."""
    tell_time: bool = False
    """True if the prompt ends with the current time."""
    after_yes: AfterYes = AfterYes.EXPLAIN
    """The continuation of a turn after the calls that the user has confirmed."""

    approval_hours: float = Field(default=24, gt=0, le=MAX_APPROVAL_HOURS)
    """The time for which a call waits for the approval of other people."""

    # Left out of the JSON if there are none.
    tokens: TokenLimits | None = Field(default=None, exclude_if=not_)

    # Left out of the JSON if plans are offered.
    plans: bool = Field(default=True, exclude_if=bool)
    """False if the model is not given the form of a plan. An engine whose writer keeps no mandates sets it."""

    @property
    def approval_lifetime(self) -> timedelta:
        return timedelta(hours=self.approval_hours)

    @property
    def closing_seconds(self) -> float:
        """The part of the deadline that is kept for ending the turn."""
        return min(2.0, self.timeout_seconds / 10)

    @property
    def max_calls_per_turn(self) -> int:
        return max(10, 2 * self.max_iterations)
