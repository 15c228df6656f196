"""The state machine, one tool turn and the gates, drawn as Mermaid or written as a table from their tables."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.graph import topology as shipped
from graph_agent.graph.topology import Topology
from graph_agent.policy.call_in_hand import Gate
from graph_agent.policy.guard import GATES

_USER, _GRAPH, _RECORD, _MODEL, _TOOLS = "User", "Graph", "Record", "Model", "Tools"

TOOL_TURN = (shipped.BUILD_REQUEST, shipped.INVOKE_LLM, shipped.CHECK_RESPONSE, shipped.EXECUTE_TOOLS, shipped.APPEND_RESULTS,
             shipped.CHECK_ITERATIONS, shipped.INVOKE_LLM, shipped.CHECK_RESPONSE, shipped.BUILD_DECISION)  # fmt: skip
"""A turn with one tool round. A test checks that it is a path of the topology."""

_MESSAGES: dict[str, tuple[tuple[str, str, str], ...]] = {
    shipped.INVOKE_LLM: (
        (_GRAPH, _MODEL, "messages and whitelisted tools"),
        (_MODEL, _GRAPH, "response"),
        (_GRAPH, _RECORD, "response, before it is acted on"),
    ),
    shipped.EXECUTE_TOOLS: (
        (_GRAPH, _GRAPH, "call passes the gates"),
        (_GRAPH, _TOOLS, "permitted call, under its operation key"),
        (_TOOLS, _GRAPH, "result, effect and ledger row committed"),
        (_GRAPH, _RECORD, "invocation"),
    ),
    shipped.BUILD_DECISION: ((_GRAPH, _RECORD, "terminal row and answer"), (_GRAPH, _USER, "decision, reply, receipts")),
}


def state_machine(topology: Topology = shipped.TOPOLOGY) -> str:
    """Return the states and their outcomes as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {shipped.START}"]
    for state, outcomes in topology.items():
        for outcome, target in outcomes.items():
            lines.append(f"    {state} --> {'[*]' if target == shipped.END else target}: {outcome}")
    return "\n".join(lines) + "\n"


def tool_turn() -> str:
    """Return one turn with one tool round as a Mermaid sequence diagram."""
    lines = ["sequenceDiagram", *(f"    participant {name}" for name in (_USER, _GRAPH, _RECORD, _MODEL, _TOOLS))]
    lines += [f"    {_USER}->>{_GRAPH}: message", f"    {_GRAPH}->>{_RECORD}: message and opening row"]
    for state in TOOL_TURN:
        lines.append(f"    Note over {_GRAPH}: {state}")
        lines += [f"    {sender}->>{receiver}: {text}" for sender, receiver, text in _MESSAGES.get(state, ())]
    return "\n".join(lines) + "\n"


def gate_chart(gates: Sequence[Gate] = GATES) -> str:
    """Return the gates between a call and its effect as a Mermaid flow chart; dotted is the evidence that a gate reads."""
    lines = ["flowchart TD", "    call([a call of the model])"]
    before = "call"
    for number, gate in enumerate(gates, start=1):
        lines += [f'    g{number}["{gate.name}"]', f"    {before} --> g{number}"]
        if gate.reads is not None:
            lines.append(f"    {gate.reads}[({gate.reads})] -.-> g{number}")
        before = f"g{number}"
    lines += [f"    {before} --> effect([its effect])", f"    {before} --> question([a question to people])"]
    return "\n".join(lines) + "\n"


def gate_table(gates: Sequence[Gate] = GATES) -> str:
    """Return the gates as a Markdown table."""
    lines = ["| gate | a call passes if | reads |", "|---|---|---|"]
    lines += [f"| {gate.name} | {gate.decides} | {gate.reads or ''} |" for gate in gates]
    return "\n".join(lines) + "\n"
