"""The topology, and everything that is derived from it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from langgraph.graph import END, START

from graph_agent.errors import UndeclaredOutcomeError
from graph_agent.graph import build, diagram, topology
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.testing import says
from tests.scripted_turns import asks, engine_of

ROOT = Path(__file__).parents[2]


def test_the_graph_has_exactly_the_nine_states() -> None:
    assert list(topology.TOPOLOGY) == [
        "BUILD_REQUEST",
        "INVOKE_LLM",
        "CHECK_RESPONSE",
        "EXECUTE_TOOLS",
        "APPEND_RESULTS",
        "CHECK_ITERATIONS",
        "TIMEOUT_RESPONSE",
        "ERROR_RESPONSE",
        "BUILD_DECISION",
    ]


def test_the_compiled_edges_equal_the_table() -> None:
    names = {topology.END: END}
    expected = {(START, topology.START)} | {
        (state, names.get(target, target)) for state, outcomes in topology.TOPOLOGY.items() for target in outcomes.values()
    }
    drawn = build.build_graph().get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == expected
    labels = {(edge.source, str(edge.data)) for edge in drawn.edges if edge.conditional and edge.data}
    conditional = {state: outcomes for state, outcomes in topology.TOPOLOGY.items() if len(outcomes) > 1}
    assert {state for state, _ in labels} <= set(conditional)
    assert all(outcome in conditional[state] for state, outcome in labels)


def test_only_states_with_a_choice_have_conditional_edges() -> None:
    conditional = {edge.source for edge in build.build_graph().get_graph().edges if edge.conditional}
    assert conditional == {state for state, outcomes in topology.TOPOLOGY.items() if len(outcomes) > 1}


def test_every_way_ends_in_build_decision() -> None:
    enders = {state for state, outcomes in topology.TOPOLOGY.items() if topology.END in outcomes.values()}
    assert enders == {topology.BUILD_DECISION}


def test_a_node_a_file_and_a_function_are_one_word() -> None:
    files = {path.stem for path in (ROOT / "graph_agent/graph/nodes").glob("[a-z]*.py")}
    assert files == {name.lower() for name in topology.TOPOLOGY}
    assert {name.lower(): node.__name__ for name, node in build.NODES.items()} == {file: file for file in files}


async def test_an_outcome_that_is_not_in_the_table_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    async def astray(turn: Turn, _: TurnRuntime) -> Turn:
        return turn.to("sideways")

    # `build_graph` takes no other function for a shipped state.
    monkeypatch.setattr(build, "NODES", {**build.NODES, topology.BUILD_REQUEST: astray})
    engine = engine_of(says("hi"), graph=build.build_graph())
    with pytest.raises(UndeclaredOutcomeError, match="BUILD_REQUEST has no outcome 'sideways'"):
        async for _ in engine.step(asks()):
            pass


@pytest.mark.parametrize("cap", [1, 5, 50])
def test_the_recursion_limit_lets_the_longest_way_pass(cap: int) -> None:
    longest = 1 + 5 * cap + 2
    assert longest < build.builder_of(build.build_graph()).recursion_limit(cap) <= longest + 3


def test_the_committed_diagrams_are_what_the_table_draws() -> None:
    assert (ROOT / "diagrams/state_machine.mmd").read_text() == diagram.state_machine()
    assert (ROOT / "diagrams/tool_turn.mmd").read_text() == diagram.tool_turn()
    assert (ROOT / "diagrams/gates.mmd").read_text() == diagram.gate_chart()


def test_the_sequence_diagram_shows_a_way_through_the_table() -> None:
    assert diagram.TOOL_TURN[0] == topology.START
    for state, following in pairwise((*diagram.TOOL_TURN, topology.END)):
        assert following in topology.TOPOLOGY[state].values()


def test_every_outcome_is_in_the_state_diagram() -> None:
    drawn = diagram.state_machine()
    for state, outcomes in topology.TOPOLOGY.items():
        for outcome, target in outcomes.items():
            shown = "[*]" if target == topology.END else target
            assert f"    {state} --> {shown}: {outcome}\n" in drawn
