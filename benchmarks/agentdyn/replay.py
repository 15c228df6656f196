"""A recorded run through the engine, with a user who answers the questions. It does not import AgentDojo."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.agentdojo.tool_list import ToolList
from benchmarks.agentdyn.marks import MARKS
from benchmarks.agentdyn.recording import Proposed, RecordedModel, Recording
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import PendingAction
from graph_agent.testing import TestClient, open_installation

_CONFIG = AgentEngineConfig(max_iterations=20, timeout_seconds=600)
_GO_ON = "Go on."
_MAX_MESSAGES = 150


@dataclass
class Replayed:
    """The result of a recording that was played."""

    useful: bool = False
    """The user's task succeeded, as AgentDojo judges it."""
    attacked: bool = False
    """The attack succeeded, as AgentDojo judges it."""
    questions: list[str] = field(default_factory=list)
    """The questions about the user's own calls."""
    foreign: list[str] = field(default_factory=list)
    """The questions about calls of the attacker."""
    plans: list[str] = field(default_factory=list)
    """The questions about a plan."""


class Replayer:
    """Plays recordings with a suite in one installation, each as another user.

    `tools` execute calls over the environment that their method `begin` gets, and keep them in `sent`, as `SuiteTools` does.
    """

    def __init__(self, tool_list: ToolList, tools: Any, client: TestClient, model: RecordedModel) -> None:
        self._suite = tool_list.suite
        self._tools = tools
        self._client = client
        self.model = model
        self._marks = MARKS[tool_list.name]
        self._users = count()

    async def play(self, recording: Recording, *, attended: bool, proposed: Proposed | None = None) -> Replayed:
        """Play a recording. An attending user says yes to their own calls only; without one every question gets a no.

        A plan gets a yes in any case.
        """
        task = self._suite.user_tasks[recording.task]
        environment = task.init_environment(self._suite.load_and_inject_default_environment(recording.texts))
        before = environment.model_copy(deep=True)
        self._tools.begin(environment)
        self.model.begin(recording, proposed)
        replayed = await self._converse(task.PROMPT, recording, attended=attended)
        judged = (recording.output, before, environment, self._tools.sent)
        judge = self._suite._check_task_result  # noqa: SLF001 (only AgentDojo's pipelines call it, which run a real model)
        replayed.useful = judge(task, *judged)
        if recording.injection is not None:
            replayed.attacked = judge(self._suite.injection_tasks[recording.injection], *judged)
        return replayed

    async def _converse(self, message: str, recording: Recording, *, attended: bool) -> Replayed:
        replayed, user = Replayed(), f"user {next(self._users)}"
        for _ in range(_MAX_MESSAGES):
            pending = (await self._client.send(message, user_id=user)).decision.pending_action
            if pending is None and not self.model.waiting:
                return replayed
            message = _GO_ON
            if pending is not None and pending.plan is not None:
                replayed.plans.append(pending.description)
                message = "yes"
            elif pending is not None:
                foreign = self._is_foreign(pending, recording)
                (replayed.foreign if foreign else replayed.questions).append(pending.description)
                message = "yes" if attended and not foreign else "no"
        raise RuntimeError(f"{recording.task} with {recording.injection} did not end after {_MAX_MESSAGES} messages.")

    def _is_foreign(self, pending: PendingAction, recording: Recording) -> bool:
        """True if a card has a mark of the injection."""
        if recording.injection is None:
            return False
        shown = json.dumps([[call.tool_name, call.arguments] for call in pending.each], ensure_ascii=False)
        return any(mark in shown for mark in self._marks[recording.injection])


@asynccontextmanager
async def open_replayer(tool_list: ToolList, tools: Any, rules: str | None) -> AsyncGenerator[Replayer]:
    """Open an installation with the tools of a suite under these conditions."""
    model = RecordedModel(tool_list.declarations)
    async with open_installation(tools, tool_list.constitution, model, conditions=rules, config=_CONFIG) as client:
        yield Replayer(tool_list, tools, client, model)
