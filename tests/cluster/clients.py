"""Clients that repeat every request with its key until it is answered, and remember what was acknowledged."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt

JWT_SECRET = "the key of the bearer tokens of this cluster only"
AUDIENCE = "cluster"
ANSWER_SECONDS = 240.0
"""The time in which a request must be answered, however often it is repeated."""
PAUSE_SECONDS = 0.2

REPEATED = frozenset({408, 409, 429, 502, 503, 504})
"""The statuses after which a client asks again with the same key."""


@dataclass
class Client:
    """One user, who sends one message at a time."""

    user: str
    url: str
    random: random.Random
    added: list[str] = field(default_factory=list)
    """The descriptions of acknowledged additions."""
    deleted: list[str] = field(default_factory=list)
    """The descriptions of acknowledged deletions."""
    uncertain: list[str] = field(default_factory=list)
    """The descriptions of additions and deletions whose outcome was reported as not known."""
    statuses: Counter[str] = field(default_factory=Counter)
    """How often each status, or failure of the connection, was received."""
    problems: list[str] = field(default_factory=list)
    turns: int = 0
    failed: int = 0
    """The answers that said that the turn had failed. What it should have done may not exist."""
    named: int = 0

    async def run(self, until: float, turns: int | None = None) -> None:
        """Send messages until the monotonic time `until`, until a request is not answered, or until `turns` were answered."""
        claims = {"sub": self.user, "aud": AUDIENCE, "exp": int(time.time()) + 3600}
        headers = {"Authorization": f"Bearer {jwt.encode(claims, JWT_SECRET, 'HS256')}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=60) as http:
            try:
                while time.monotonic() < until and (turns is None or self.turns < turns):
                    await self._act(http)
            except TimeoutError as unanswered:
                self.problems.append(f"{self.user}: {unanswered}")

    async def _act(self, http: httpx.AsyncClient) -> None:
        left = [description for description in self.added if description not in self.deleted]
        action = self.random.random()
        # The embedded model finds only the tasks of a list that it can read at once.
        if len(left) > 25 or (left and action < 0.2):
            await self._delete(http, self.random.choice(left))
        elif action < 0.3:
            await self._ask(http, {"content": "hello"})
        else:
            self.named += 1
            # The number is part of a word: alone it would be one of the words in the names of other tasks.
            await self._add(http, f"item {self.user} part{self.named}")

    async def _add(self, http: httpx.AsyncClient, description: str) -> None:
        answer = await self._ask(http, {"content": f'add a task "{description}"'})
        if answer["decision"].get("effects") == [f"Add task '{description}'"]:
            self.added.append(description)
        elif "not known whether" in answer["reply"]:
            self.uncertain.append(description)
        else:
            self._require_failure(answer)

    async def _delete(self, http: httpx.AsyncClient, description: str) -> None:
        """Ask for a deletion, and confirm it by the id of the pending action."""
        asked = await self._ask(http, {"content": f'delete the task "{description}"'})
        pending = asked["decision"].get("pending_action")
        if pending is None:
            self._require_failure(asked)
            return
        answers = {"pending_action": pending["id"], "yes": True}
        done = await self._ask(http, {"conversation_id": asked["conversation_id"], "answers": answers})
        if done["decision"].get("effects"):
            self.deleted.append(description)
        elif "not known whether" in done["reply"]:
            self.uncertain.append(description)
        else:
            self._require_failure(done)

    def _require_failure(self, answer: dict[str, Any]) -> None:
        """Note an answer that neither says what was done nor that the turn has failed.

        A turn whose process died may be ended by another one, whose answer says that nothing was done.
        """
        self.failed += 1
        if not answer["decision"]["outcome_category"].startswith("ERROR:"):
            self.problems.append(f"{self.user}: answered with: {answer['reply']}")

    async def _ask(self, http: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a message that is repeated with the same key. Raises `TimeoutError`."""
        key = f"{self.random.getrandbits(128):032x}"
        ends = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < ends:
            try:
                response = await http.post("/api/chat", json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError as exc:
                self.statuses[type(exc).__name__] += 1
            else:
                self.statuses[str(response.status_code)] += 1
                if response.status_code == 200:
                    self.turns += 1
                    answer: dict[str, Any] = response.json()
                    return answer
                if response.status_code not in REPEATED:
                    raise TimeoutError(f"{body} was refused with {response.status_code}: {response.text}")
            await asyncio.sleep(PAUSE_SECONDS * (1 + self.random.random()))
        raise TimeoutError(f"{body} has no answer after {ANSWER_SECONDS:g} s")
