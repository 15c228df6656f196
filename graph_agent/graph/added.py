"""States that an application adds: their nodes reach no model, no tool and no confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from graph_agent.errors import ConfigurationError
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.policy.snapshot import PolicySnapshot

_CHANGEABLE = frozenset({"outcome", "prompt", "response", "ending", "notices"})
"""The fields that an added state may change. From the others EXECUTE_TOOLS and the record learn what was done and confirmed."""


@dataclass(frozen=True, slots=True)
class AddedRuntime:
    """The runtime of an added state. The clock and the ids are recorded, so that its work can be replayed."""

    now: Callable[[], datetime]
    new_id: Callable[[], str]
    interrupted: bool
    snapshot: PolicySnapshot


AddedNode = Callable[[Turn, AddedRuntime], Awaitable[Turn]]


def restricted(name: str, work: AddedNode) -> Callable[[Turn, TurnRuntime], Awaitable[Turn]]:
    """Return `work` as a node of the graph. It raises `ConfigurationError` for a change that only shipped states may make."""

    async def run(turn: Turn, runtime: TurnRuntime) -> Turn:
        ports = runtime.ports
        after = await work(turn, AddedRuntime(ports.now, ports.new_id, ports.interrupted, runtime.snapshot))
        for field, value in vars(turn).items():
            if field not in _CHANGEABLE and getattr(after, field) is not value:
                raise ConfigurationError(f"{name} changed '{field}' of the turn, which only the shipped states may change")
        return after

    return run
