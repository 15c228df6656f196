"""A turn that runs in this process, for whoever wants to watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from graph_agent.graph.stepping import Step


class LiveTurn:
    """The steps of a running turn. Any number of listeners may come and go, each hears all of them from the first on.

    A listener is never waited for: the turn only notes what has been done.
    """

    def __init__(self, decision_id: str, user_id: str) -> None:
        self.decision_id = decision_id
        self.user_id = user_id
        self.failure: BaseException | None = None
        """What the turn raised instead of an answer, once it has ended."""
        self._steps: list[Step] = []
        self._ended = False
        self._news = asyncio.Event()

    def tell(self, step: Step) -> None:
        """Note a step; after the end nothing counts any more."""
        if not self._ended:
            self._steps.append(step)
            self._wake()

    def end(self, failure: BaseException | None = None) -> None:
        """The turn has its answer, or has failed. How it ended stands in its record."""
        self.failure = failure
        self._ended = True
        self._wake()

    async def begun(self) -> None:
        """Wait for the first step, and raise the failure of a turn that has ended without one."""
        while not self._steps and not self._ended:
            await self._news.wait()
        if not self._steps and self.failure is not None:
            raise self.failure

    async def steps(self) -> AsyncIterator[Step]:
        """All steps, those to come as they come; ends with the turn."""
        heard = 0
        while True:
            for step in self._steps[heard:]:
                heard += 1
                yield step
            if heard == len(self._steps):
                if self._ended:
                    return
                await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
