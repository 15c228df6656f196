"""INVOKE_LLM: calls the model once. The response is recorded before it is used."""

from __future__ import annotations

from graph_agent.graph.state import Turn, TurnRuntime


async def invoke_llm(turn: Turn, runtime: TurnRuntime) -> Turn:
    assert turn.prompt is not None
    response = await runtime.ports.generate(turn.prompt)
    usage = turn.usage
    if response.usage is not None:
        usage = response.usage if usage is None else usage + response.usage
    return turn.to("responded", response=response, usage=usage, adapter_calls=turn.adapter_calls + 1)
