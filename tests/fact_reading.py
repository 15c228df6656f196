"""The facts of a call as the runtime reads them, from one result of a server or from a recorded read."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from graph_agent.graph.fact_reads import FactReader
from graph_agent.graph.ports import WantedRead
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.call_in_hand import CallInHand, Setting
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.compiled import CompiledPolicy


@dataclass
class OneAnswer:
    """Ports whose reads all have one answer: the result of a server, or a read of a record."""

    answer: ToolResult | FactRead
    made: list[FactRead] = field(default_factory=list)

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        read = self.answer if isinstance(self.answer, FactRead) else wanted.keep(self.answer)
        self.made.append(read)
        return read

    async def reserve(self, *_: Any, **__: Any) -> None:
        raise AssertionError("no read is counted")


def facts_of(policy: CompiledPolicy, call: FunctionCall, ports: OneAnswer) -> CallFacts:
    """Return the facts that the conditions about a call of the user ann name."""
    setting = Setting(policy=policy, user_id="ann", decision_id="d", max_calls_per_turn=5)
    return _at_once(FactReader(setting, ports).of_call(CallInHand(call=call, setting=setting, sequence=1), lambda _: None))


def _at_once(reading: Coroutine[Any, Any, CallFacts]) -> CallFacts:
    """Return the result of a coroutine that waits for nothing; a loop for each case would be most of its time."""
    try:
        reading.send(None)
    except StopIteration as done:
        found: CallFacts = done.value
        return found
    raise AssertionError("a read has waited")
