"""States that an application adds: their nodes reach no model, no tool and no confirmation.

If one fails, the turn crashes there, and is walked over its record to its end. In that walk the state is passed: the reply says
that the turn failed, and what was done before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from graph_agent.errors import ConfigurationError, UndeclaredOutcomeError
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.reply.authored import by_code
from graph_agent.reply.fixed import FAILURE_REPLY

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


def restricted(name: str, work: AddedNode, outcomes: Mapping[str, str]) -> Callable[[Turn, TurnRuntime], Awaitable[Turn]]:
    """Return `work` as a node of the graph, with its `outcomes` and the states after them.

    It raises `ConfigurationError` for a change that only shipped states may make, and `UndeclaredOutcomeError`.
    """

    async def checked(turn: Turn, runtime: TurnRuntime) -> Turn:
        ports = runtime.ports
        after = await work(turn, AddedRuntime(ports.now, ports.new_id, ports.interrupted, runtime.snapshot))
        for field, value in vars(turn).items():
            if field not in _CHANGEABLE and getattr(after, field) is not value:
                raise ConfigurationError(f"{name} changed '{field}' of the turn, which only the shipped states may change")
        require_declared(name, after.outcome, outcomes)
        return after

    async def run(turn: Turn, runtime: TurnRuntime) -> Turn:
        try:
            return await checked(turn, runtime)
        except Exception:
            if not runtime.ports.reach_interruption():
                raise
            # No call is made any more, whichever state follows. The model's text may be what the state had to check.
            return turn.to(next(iter(outcomes)), ending=Ending.of(EndingKind.FAILURE, by_code(FAILURE_REPLY)))

    return run


def require_declared(name: str, outcome: str, outcomes: Mapping[str, str]) -> None:
    """Raise `UndeclaredOutcomeError` for an outcome of a state that the topology lacks."""
    if outcome not in outcomes:
        text = f"{name} has no outcome '{outcome}': add it to TOPOLOGY in graph/topology.py, or to your own table"
        raise UndeclaredOutcomeError(text)
