"""The events of a turn in LangGraph's terms: callbacks for model and tool calls, and `stream_mode="custom"` for all events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_async_callback_manager_for_config, var_child_runnable_config
from langgraph.config import get_stream_writer

from graph_agent.graph.step import Step
from graph_agent.graph.transcript import result_json
from graph_agent.llm.openai_compatible import build_messages
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import CallDisposition, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.turn_call import TurnCall
from graph_agent.turn.events import TurnEvent, opening_event, step_events
from graph_agent.turn.hooks import HookedModelCall, TurnHook


class NodeEvents(TurnHook):
    """Reports one turn to the callbacks and to the stream of the node in which it runs."""

    def __init__(self, snapshot: PolicySnapshot, config: RunnableConfig, model: str) -> None:
        self._snapshot = snapshot
        self._callbacks = get_async_callback_manager_for_config(config)
        self._write = get_stream_writer()
        self._model = model
        self._running: dict[HookedModelCall, Any] = {}
        """The callbacks of each model call that is running."""
        # Functions, not coroutines: a node that is cancelled leaves some that are never awaited.
        self._reports: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]] | None] = asyncio.Queue()

    @asynccontextmanager
    async def reported(self) -> AsyncGenerator[None]:
        """Await the callbacks, which are coroutines, beside the turn: a hook must not wait. On exit all have been called."""
        reporting = asyncio.create_task(self._report())
        # A model or tool of LangChain takes the callbacks of this context, and would report its call a second time.
        inherited: RunnableConfig = var_child_runnable_config.get() or {}
        token = var_child_runnable_config.set({**inherited, "callbacks": []})
        try:
            yield
        finally:
            var_child_runnable_config.reset(token)
            self._reports.put_nowait(None)
            await reporting

    def before_turn(self, turn: RecordHeader) -> None:  # noqa: ARG002 (the interface has it)
        self._stream(opening_event(self._snapshot))

    def after_node(self, turn: RecordHeader, step: Step) -> None:  # noqa: ARG002 (the interface has it)
        for event in step_events(step, self._snapshot):
            self._stream(event)
        for call in step.turn.calls[len(step.before.calls) :]:
            if call.disposition is CallDisposition.EXECUTED:
                self._reports.put_nowait(partial(self._report_tool, call))

    def before_model_call(self, call: HookedModelCall) -> None:
        self._reports.put_nowait(partial(self._start_model, call))

    def after_model_call(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None:
        self._reports.put_nowait(partial(self._end_model, call, outcome))

    def _stream(self, event: TurnEvent) -> None:
        self._write({"type": str(event.kind), **event.data})

    async def _report(self) -> None:
        while (report := await self._reports.get()) is not None:
            await report()

    async def _start_model(self, call: HookedModelCall) -> None:
        messages = convert_to_messages(build_messages(call.request.messages, "", call.request.system_instruction))
        started = await self._callbacks.on_chat_model_start({"name": self._model}, [messages], name=self._model)
        self._running[call] = started[0]

    async def _end_model(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None:
        running = self._running.pop(call)
        if isinstance(outcome, BaseException):
            await running.on_llm_error(outcome)
            return
        calls = [{"name": call.name, "args": call.arguments, "id": call.id} for call in outcome.function_calls or []]
        metadata = {"finish_reason": outcome.finish_reason, **({"error": outcome.error} if outcome.error else {})}
        message = AIMessage(outcome.content or "", tool_calls=calls, response_metadata=metadata)
        await running.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]))

    async def _report_tool(self, call: TurnCall) -> None:
        name, arguments = call.call.name, call.arguments
        started = await self._callbacks.on_tool_start({"name": name}, json.dumps(arguments), name=name, inputs=arguments)
        await started.on_tool_end(tool_message(name, call.call.id or name, call.result))


def tool_message(name: str, call_id: str | None, result: ToolResult, **fields: Any) -> ToolMessage:
    """Return the result of a call as a message, with what the model reads of it."""
    content = json.dumps(result_json(result), ensure_ascii=False)
    return ToolMessage(content, tool_call_id=call_id, name=name, status="success" if result.success else "error", **fields)
