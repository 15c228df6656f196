"""The state machine: node -> {outcome: next node}.

A node returns an outcome and does not know the next node. The compiled graph, the diagrams, the documentation and the
tests are derived from this table. `build_graph` takes an extended table, for states of an application.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from graph_agent.errors import ConfigurationError

Topology = Mapping[str, Mapping[str, str]]

BUILD_REQUEST = "BUILD_REQUEST"
INVOKE_LLM = "INVOKE_LLM"
CHECK_RESPONSE = "CHECK_RESPONSE"
EXECUTE_TOOLS = "EXECUTE_TOOLS"
APPEND_RESULTS = "APPEND_RESULTS"
CHECK_ITERATIONS = "CHECK_ITERATIONS"
TIMEOUT_RESPONSE = "TIMEOUT_RESPONSE"
ERROR_RESPONSE = "ERROR_RESPONSE"
BUILD_DECISION = "BUILD_DECISION"
END = "END"
START = BUILD_REQUEST
_WHERE = "the topology (TOPOLOGY in graph/topology.py, or the table given to build_graph)"

TOPOLOGY: Topology = MappingProxyType(
    {
        BUILD_REQUEST: {
            "request_built": INVOKE_LLM,
            "confirmed": EXECUTE_TOOLS,
            "called": EXECUTE_TOOLS,
            "proposed": BUILD_DECISION,
            "agreed": BUILD_DECISION,
            "declined": BUILD_DECISION,
            "unclear": BUILD_DECISION,
            "void_answer": BUILD_DECISION,
        },
        INVOKE_LLM: {"responded": CHECK_RESPONSE},
        CHECK_RESPONSE: {"answered": BUILD_DECISION, "tool_calls": EXECUTE_TOOLS, "failed": ERROR_RESPONSE},
        EXECUTE_TOOLS: {
            "executed": APPEND_RESULTS,
            "awaiting": BUILD_DECISION,
            "confirmed_done": BUILD_DECISION,
            "called_done": BUILD_DECISION,
        },
        APPEND_RESULTS: {"appended": CHECK_ITERATIONS},
        CHECK_ITERATIONS: {"below_cap": INVOKE_LLM, "cap_reached": TIMEOUT_RESPONSE},
        TIMEOUT_RESPONSE: {"answered": BUILD_DECISION},
        ERROR_RESPONSE: {"answered": BUILD_DECISION},
        BUILD_DECISION: {"decided": END},
    }
)


def check_topology(table: Topology, nodes: Collection[str]) -> None:
    """Raise `ConfigurationError`, which says what to add where, unless `table` is the shipped one or an extension of it.

    An extension has all shipped outcomes, one terminal state, and no loop that CHECK_ITERATIONS does not count.
    """
    for state, outcomes in TOPOLOGY.items():
        if missing := [outcome for outcome in outcomes if outcome not in table.get(state, ())]:
            raise ConfigurationError(f"{state} has no outcome '{missing[0]}': add it to {_WHERE}")
    reached = {target for outcomes in table.values() for target in outcomes.values()}
    for state, outcomes in table.items():
        if state not in nodes:
            raise ConfigurationError(
                f"{state} has no node: pass it in nodes= of build_graph, or add it to NODES in graph/build.py"
            )
        if state not in reached and state != START:
            raise ConfigurationError(f"no outcome leads to {state}: let one in {_WHERE} lead to it")
        for outcome, target in outcomes.items():
            if target not in table and target != END:
                raise ConfigurationError(f"{state} leads by '{outcome}' to {target}, which has no row: add it to {_WHERE}")
            if (target == END) != (state == BUILD_DECISION):
                raise ConfigurationError(f"{state} leads by '{outcome}' to {target}: exactly {BUILD_DECISION} leads to END")
    if unused := [name for name in nodes if name not in table]:
        raise ConfigurationError(f"the node {unused[0]} has no row: add it to {_WHERE}")
    try:
        _order(table)
    except CycleError as exc:
        loop = " -> ".join(exc.args[1][::-1])
        raise ConfigurationError(f"{CHECK_ITERATIONS} does not count the loop {loop}: let it pass through that state") from None


def path_lengths(table: Topology) -> tuple[int, int]:
    """Return how many states a round has at most, and how many more a path has besides its rounds."""
    to_count: dict[str, int] = {CHECK_ITERATIONS: 1}
    to_end: dict[str, int] = {END: 0}
    for state in _order(table):
        if state not in (CHECK_ITERATIONS, END):
            to_count[state] = 1 + max(to_count.get(target, -len(table)) for target in table[state].values())
            to_end[state] = 1 + max(to_end.get(target, 0) for target in table[state].values())
    states_per_round = max(1, *(to_count[state] for state in table[CHECK_ITERATIONS].values()))
    after_last_round = max(to_end[state] for state in table[CHECK_ITERATIONS].values())
    return states_per_round, max(to_end[START], to_count[START] - states_per_round + after_last_round)


def _order(table: Topology) -> list[str]:
    """Return the states, each after those that follow it; the states after CHECK_ITERATIONS begin a new round.

    Raises `CycleError`.
    """
    following = {state: set(outcomes.values()) for state, outcomes in table.items() if state != CHECK_ITERATIONS}
    return list(TopologicalSorter(following).static_order())
