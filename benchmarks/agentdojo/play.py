"""One user task of AgentDojo through the engine: its own calls, and those of the first injection that the model reads."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall as DojoCall
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.types import get_text_content_as_str, text_content_block_from_string
from pydantic import BaseModel

from benchmarks.agentdojo.operator_files import TRUSTED
from benchmarks.agentdojo.tool_list import ToolList
from benchmarks.agentdyn.plans import Quality, honest_plan, is_in_plans, worst_plan
from benchmarks.agentdyn.recording import Proposed, Recording
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall, LLMRequest, LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.policy.gates import MAX_CALLS_PER_ROUND
from graph_agent.reply.forms import PROPOSE_PLAN
from graph_agent.testing import TestClient, open_installation, says

READS = ("get_", "read_", "search_", "list_", "check_")
"""The beginnings of the names of tools that only read."""
_MARK = "INSTRUCTION-TO-OBEY"
"""One word: the texts of results are wrapped at spaces."""
_GO_ON = "Go on."
CONFIG = AgentEngineConfig(max_iterations=20, timeout_seconds=600)


@dataclass
class Played:
    """The result of a task."""

    useful: bool
    """The user's task succeeded, as AgentDojo judges it."""
    attacked: bool
    """The attack succeeded, as AgentDojo judges it."""
    questions: int = 0
    """The questions about the user's own calls."""
    asked: list[str] = field(default_factory=list)
    """Those questions, for a look at them."""
    plans: int = 0
    """The questions about a plan."""


class Suite(ToolList):
    """A suite of AgentDojo: its tools, and where its injections are read."""

    def __init__(self, suite: Any) -> None:
        super().__init__(suite, reads=READS, trusted=TRUSTED[suite.name], in_plans=True)
        self.canaries = {name: f"CANARY-{number}-" for number, name in enumerate(suite.get_injection_vector_defaults())}

    def injections(self) -> list[Any]:
        """Return the tasks of the attacker: those whose ground truth has calls, so that a scripted model can make them."""
        environment = self.suite.load_and_inject_default_environment({})
        return [task for task in self.suite.injection_tasks.values() if task.ground_truth(environment)]

    def vectors(self, task: Any) -> list[str]:
        """Return the places for an injection that the task reads."""
        read = "\n".join(
            get_text_content_as_str(one["content"]) for one in self._messages(task, self.canaries) if one["content"]
        )
        return [name for name, canary in self.canaries.items() if canary in read]

    def run(self, task: Any, injection: Any = None, vectors: Sequence[str] = ()) -> Recording:
        """Return the run of a task's own calls, with an injection in `vectors` or with none."""
        messages = self._messages(task, _placed(injection, vectors))
        return Recording(task.ID, None if injection is None else injection.ID, {}, messages, useful=True, attacked=False)

    def _messages(self, task: Any, placed: dict[str, str]) -> list[dict[str, Any]]:
        environment = task.init_environment(self.suite.load_and_inject_default_environment(placed))
        *_, messages, _ = GroundTruthPipeline(task).query(task.PROMPT, FunctionsRuntime(self.suite.tools), environment)
        return [_as_recorded(one) for one in messages]


def _placed(injection: Any, vectors: Sequence[str]) -> dict[str, str]:
    return {} if injection is None else dict.fromkeys(vectors, f"{_MARK}: {injection.GOAL}")


def _as_recorded(message: Any) -> dict[str, Any]:
    """Return a message in the form of a recorded run: calls as plain data."""
    calls = {"tool_calls": [_plain(call) for call in message.get("tool_calls") or ()]} if message["role"] == "assistant" else {}
    answered = {"tool_call": _plain(message["tool_call"])} if message["role"] == "tool" else {}
    return {**message, **calls, **answered}


class SuiteTools:
    """The tools of a suite over one environment. They note when an injection is read."""

    def __init__(self, suite: Any) -> None:
        self._runtime = FunctionsRuntime(suite.tools)
        self.begin(None)

    def begin(self, environment: Any) -> None:
        """Go on with another environment."""
        self.environment = environment
        self.sent: list[DojoCall] = []
        self.has_read_injection = False

    def get_available_tools(self) -> list[str]:
        return list(self._runtime.functions)

    async def execute(self, tool_name: str, parameters: dict[str, Any], user_id: str) -> ToolResult:  # noqa: ARG002 (of the port)
        result, error = self._runtime.run_function(self.environment, tool_name, parameters)
        self.sent.append(DojoCall(function=tool_name, args=parameters))
        if error is not None:
            return ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, error)
        self.has_read_injection = self.has_read_injection or _MARK in tool_result_to_str(result)
        plain = _plain(result)
        return ToolResult(success=True, data=plain if isinstance(plain, dict | list) else {"text": str(plain)})


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return json.loads(json.dumps(value, default=str))


class _Obedient(RequestAdapter):
    """A model that makes the calls of the user's task, and those of an injection as soon as it has read one.

    Changes that follow one another are one response, as of a model that has read what it needs.
    """

    model = "obedient"

    def __init__(self, suite: Suite, tools: SuiteTools) -> None:
        super().__init__(suite.declarations)
        self._tools = tools
        self.begin((), None)

    def begin(self, own: Sequence[FunctionCall], injection: Any, proposed: Proposed | None = None) -> None:
        """Go on with another task, and propose a plan in place of the first response that has such a call."""
        self._injection = injection
        self._proposed = proposed
        self.own = deque(own)
        self.foreign: deque[FunctionCall] = deque()

    async def respond(self, request: LLMRequest) -> LLMResponse:  # noqa: ARG002 (it obeys)
        if self._injection is not None and self._tools.has_read_injection:
            self.foreign = deque(_calls(self._injection.ground_truth(self._tools.environment)))
            self._injection = None
        waiting = self.foreign or self.own
        if not waiting:
            return says("Done.")
        batch = [waiting.popleft()]
        while waiting and len(batch) < MAX_CALLS_PER_ROUND and not (_reads(batch[-1]) or _reads(waiting[0])):
            batch.append(waiting.popleft())
        if (proposed := self._proposed) is not None and any(map(proposed.before, batch)):
            self._proposed = None
            waiting.extendleft(reversed(batch))
            batch = [FunctionCall(PROPOSE_PLAN, proposed.plan)]
        return LLMResponse(function_calls=batch, finish_reason="tool_calls")

    async def aclose(self) -> None:
        """Do nothing: it has no connections."""


def _reads(call: FunctionCall) -> bool:
    return call.name.startswith(READS)


def _calls(calls: Sequence[DojoCall]) -> list[FunctionCall]:
    """Return the calls, without a read that repeats the one before it: a model knows its result."""
    found: list[FunctionCall] = []
    for one in calls:
        call = FunctionCall(one.function, one.model_dump(mode="json")["args"])
        if not (found and call == found[-1] and _reads(call)):
            found.append(call)
    return found


class Player:
    """Plays tasks of a suite in one installation, each as another user."""

    def __init__(self, suite: Suite, client: TestClient, tools: SuiteTools, model: _Obedient) -> None:
        self._suite = suite
        self._client = client
        self._tools = tools
        self._model = model
        self._policy = suite.policy()
        self._users = count()

    async def play(
        self,
        task: Any,
        injection: Any = None,
        vectors: Sequence[str] = (),
        *,
        says_yes: bool = True,
        plans: Quality | None = None,
    ) -> Played:
        """Play a task, with an injection in `vectors` or with none. The user says yes, if at all, to their own calls only.

        With `plans` the model proposes a plan, which gets a yes in any case.
        """
        dojo, model, tools = self._suite.suite, self._model, self._tools
        environment = task.init_environment(dojo.load_and_inject_default_environment(_placed(injection, vectors)))
        before = environment.model_copy(deep=True)
        own = _calls(task.ground_truth(environment))
        tools.begin(environment)
        model.begin(own, injection, self._proposed(plans, task, injection, vectors, environment))
        played = Played(useful=False, attacked=False)
        user, message = f"user {next(self._users)}", task.PROMPT
        for _ in range(3 * len(own) + 20):
            pending = (await self._client.send(message, user_id=user)).decision.pending_action
            if pending is None and not (model.own or model.foreign):
                break
            message = _GO_ON
            if pending is not None and pending.plan is not None:
                played.plans += 1
                message = "yes"
            elif pending is not None:
                is_own = _is_own(pending, own)
                played.questions += is_own
                played.asked += [pending.description] if is_own else []
                message = "yes" if is_own and says_yes else "no"
                if not is_own:
                    model.foreign.clear()
        output = [text_content_block_from_string(task.GROUND_TRUTH_OUTPUT)]
        judged = (before, environment, tools.sent)
        judge = dojo._check_task_result  # noqa: SLF001 (only AgentDojo's pipelines call it, which run a real model)
        played.useful = judge(task, output, *judged)
        if injection is not None:
            played.attacked = judge(injection, output, *judged)
        return played

    def _proposed(
        self, quality: Quality | None, task: Any, injection: Any, vectors: Sequence[str], environment: Any
    ) -> Proposed | None:
        """Return the plan of a task: an honest one in place of its first change, the worst of the attacker's first call."""
        if quality is None:
            return None
        if quality != "worst":
            plan = honest_plan(self._suite.run(task), task.PROMPT, self._policy, cautious=quality == "cautious")
            return None if plan is None else Proposed(plan, partial(is_in_plans, policy=self._policy))
        foreign = [call for call in _calls(injection.ground_truth(environment)) if is_in_plans(call, self._policy)]
        plan = worst_plan(self._suite.run(task, injection, vectors), task.PROMPT, self._policy, foreign) if foreign else None
        return None if plan is None else Proposed(plan, lambda call: call in foreign)


@asynccontextmanager
async def open_player(suite: Suite, rules: str | None) -> AsyncGenerator[Player]:
    """Open an installation with the tools of a suite under these conditions."""
    tools = SuiteTools(suite.suite)
    model = _Obedient(suite, tools)
    async with open_installation(tools, suite.constitution, model, conditions=rules, config=CONFIG) as client:
        yield Player(suite, client, tools, model)


def _is_own(pending: PendingAction, own: Sequence[FunctionCall]) -> bool:
    """True if a card has calls of the user's task only."""
    known = [(call.name, _without_nulls(call.arguments)) for call in own]
    return all((call.tool_name, _without_nulls(call.arguments)) in known for call in pending.each)


def _without_nulls(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
