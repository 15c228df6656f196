"""The sources of the calls of a recorded decision, found again from the words of its user.

Whether a value stands in the user's words depends on these words, and on nothing that a tool has returned: so it is known also
for decisions in which no condition has read a source. A value that is not the user's counts as the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall
from graph_agent.models.sources import CallSources, EarlierCalls
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.sources import SourceFinder


class UserWords:
    """The sources of the calls of one decision, found when they are asked for."""

    def __init__(
        self, policy: CompiledPolicy, context: Mapping[str, Any], calls: Sequence[FunctionCall], tools: Sequence[str]
    ) -> None:
        """`context` is that of the record as JSON, `tools` are those that were called in the conversation before."""
        self._policy = policy
        self._context = context
        self._calls = calls
        self._tools = tools

    @property
    def are_sent(self) -> bool:
        """True if a client has sent the calls: it speaks for its user until it has read something."""
        return bool(self._context.get("called"))

    @property
    def are_known(self) -> bool:
        """True if the user, or the client, has said something that is still stored."""
        return self.are_sent or bool(self._context.get("message"))

    @cached_property
    def sources(self) -> Sequence[CallSources]:
        """The sources of each call."""
        context = DecisionContext.model_validate(dict(self._context))
        finder = SourceFinder(context, self._policy, EarlierCalls(tools=self._tools))
        return finder.sources(self._calls, ()).calls
