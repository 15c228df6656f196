"""A recorded run, and a model that gives its responses again. Neither imports AgentDojo."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.llm import FunctionCall, LLMRequest, LLMResponse, ToolDeclaration
from graph_agent.policy.gates import MAX_CALLS_PER_ROUND
from graph_agent.reply.forms import PROPOSE_PLAN
from graph_agent.testing import says

SILENT = "Done."
"""The text of a response without text: every turn ends with one."""


@dataclass(frozen=True)
class Recording:
    """One conversation of a real model with a user task, and an injection or none."""

    task: str
    injection: str | None
    """The id of the task of the attacker."""
    texts: dict[str, str]
    """What is written into the environment, by place."""
    messages: list[dict[str, Any]]
    useful: bool
    """The user's task succeeded in the recorded run, as AgentDojo judged it."""
    attacked: bool
    """The attack succeeded in the recorded run, as AgentDojo judged it."""

    @classmethod
    def read(cls, file: Path) -> Recording | None:
        """Read the file of a run. Return None for one that was not finished, which has no judgement."""
        run = json.loads(file.read_text(encoding="utf-8"))
        if "utility" not in run:
            return None
        attack = run.get("attack_type") not in (None, "none")
        return cls(
            run["user_task_id"],
            run["injection_task_id"] if attack else None,
            run.get("injections") or {},
            run.get("messages") or [],
            useful=bool(run["utility"]),
            attacked=attack and bool(run["security"]),
        )

    @property
    def said(self) -> list[dict[str, Any]]:
        """The messages of the model."""
        return [message for message in self.messages if message["role"] == "assistant"]

    @property
    def output(self) -> list[dict[str, Any]]:
        """The content of the last message of the model, which AgentDojo judges."""
        return (self.said[-1]["content"] if self.said else None) or [{"type": "text", "content": SILENT}]

    def responses(self) -> Iterator[LLMResponse]:
        """Return the responses of the model in order. Calls beyond the limit of a round follow in the next one."""
        for message in self.said:
            calls = [FunctionCall(call["function"], dict(call["args"] or {})) for call in message.get("tool_calls") or ()]
            for first in range(0, len(calls), MAX_CALLS_PER_ROUND):
                yield LLMResponse(function_calls=calls[first : first + MAX_CALLS_PER_ROUND], finish_reason="tool_calls")
            if not calls:
                yield says("".join(block.get("content") or "" for block in message["content"] or ()) or SILENT)


def read_recordings(folder: Path) -> list[Recording]:
    """Read the finished runs of a model with a suite, in the order of their paths."""
    found = map(Recording.read, sorted(folder.glob("user_task_*/*/*.json")))
    return [recording for recording in found if recording is not None]


class Proposed(NamedTuple):
    """A plan that the recorded model did not propose itself."""

    plan: dict[str, Any]
    before: Callable[[FunctionCall], bool]
    """It is proposed before the first response with such a call."""


class RecordedModel(RequestAdapter):
    """A model that gives the responses of a recording, whatever it is asked."""

    model = "recorded"

    def __init__(self, declarations: Sequence[ToolDeclaration]) -> None:
        super().__init__(declarations)
        self.waiting: deque[LLMResponse] = deque()

    def begin(self, recording: Recording, proposed: Proposed | None = None) -> None:
        """Go on with another recording, and propose a plan before the first response that has such a call."""
        responses = list(recording.responses())
        if proposed is not None:
            at = next((i for i, one in enumerate(responses) if any(map(proposed.before, one.function_calls or ()))), None)
            plan = LLMResponse(function_calls=[FunctionCall(PROPOSE_PLAN, proposed.plan)], finish_reason="tool_calls")
            responses[at:at] = [] if at is None else [plan]
        self.waiting = deque(responses)

    def next_arguments(self, name: str) -> Iterator[str]:
        """Return the arguments of this name in the calls to come."""
        calls = (call for response in self.waiting for call in response.function_calls or ())
        return (str(call.arguments[name]) for call in calls if name in call.arguments)

    async def respond(self, request: LLMRequest) -> LLMResponse:  # noqa: ARG002 (it goes on as it was recorded)
        return self.waiting.popleft() if self.waiting else says(SILENT)

    async def aclose(self) -> None:
        """Do nothing: it has no connections."""
