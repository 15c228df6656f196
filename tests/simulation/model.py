"""The simulated model: it answers each request with something else, so that a repeated request shows."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graph_agent.errors import LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.llm import FunctionCall, LLMRequest, LLMResponse
from tests.simulation.faults import Faults
from tests.simulation.tools import APPROVED, DECLARATIONS, PAYS, PUBLISHES, READ_FIRST, UNAPPROVED

_ERRORS: tuple[type[LLMError], ...] = (LLMError, LLMTimeoutError, RateLimitError)


@dataclass
class ModelWorld:
    """The provider's side. Every call that the model requests has another token."""

    random: Random
    faults: Faults
    tokens: Any = field(default_factory=itertools.count)
    healed: bool = False

    def answer(self) -> LLMResponse:
        random = self.random
        if random.random() < (0.1 if self.faults.approvals else 0.4):
            text = f"answer {next(self.tokens)}"
            return LLMResponse(
                function_calls=[FunctionCall(name="answer", arguments={"text": text, "reports_change": False})],
                finish_reason="tool_calls",
            )
        return LLMResponse(function_calls=self.calls(), finish_reason="tool_calls")

    def calls(self) -> list[FunctionCall]:
        """Return some calls of tools."""
        random = self.random
        if random.random() < 0.1:
            return [FunctionCall(name=name, arguments=self._arguments(name)) for name in (READ_FIRST, PUBLISHES)]
        requested = APPROVED if self.faults.approvals and random.random() < 0.8 else (*UNAPPROVED, "send_note", "look_up")
        names = [random.choice(requested) for _ in range(random.choice((1, 1, 2, 3)))]
        return [FunctionCall(name=name, arguments=self._arguments(name)) for name in names]

    def _arguments(self, name: str) -> dict[str, Any]:
        amount = {"amount": self.random.randrange(1, 60)} if name == PAYS else {}
        return {"token": f"t{next(self.tokens)}", **amount}


class SimulatedModel(RequestAdapter):
    """A process's connection to the provider."""

    def __init__(self, world: ModelWorld) -> None:
        super().__init__(DECLARATIONS)
        self._world = world

    @property
    def model(self) -> str:
        return "simulated"

    async def respond(self, request: LLMRequest) -> LLMResponse:  # noqa: ARG002 (no answer depends on the request)
        world, random = self._world, self._world.random
        slow = not world.healed and random.random() < world.faults.slow_model
        seconds = random.uniform(0.0, random.choice((3, 8, 40))) if slow else random.uniform(0.05, 1.0)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if random.random() < 0.7:
                raise
            # A library may swallow a cancellation.
            await asyncio.sleep(seconds)
        if not world.healed and random.random() < world.faults.failing_model:
            raise random.choice(_ERRORS)()
        return world.answer()
