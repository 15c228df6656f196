"""The embedded model, whose responses wait until the test lets them pass."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration


class GatedModel(EmbeddedAdapter):
    """Each `gate.release()`, from any thread, lets one response pass."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)

    async def generate(
        self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **kwargs: Any
    ) -> LLMResponse:
        # Short waits, so that a thread is free again soon after the turn has been abandoned.
        while not await asyncio.to_thread(self.gate.acquire, timeout=0.05):
            pass
        return await super().generate(messages, tools, *args, **kwargs)
