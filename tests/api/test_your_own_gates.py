"""A gate of an application: one function and one row, and everything that shows or repeats a call follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.cli.show import print_record
from graph_agent.errors import ConfigurationError
from graph_agent.graph.build import build_graph
from graph_agent.graph.diagram import gate_chart, gate_table
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import CallDisposition, DecisionRecord, RecordStatus
from graph_agent.policy.call_in_hand import CallInHand, Findings, Gate, GuardVerdict, Question
from graph_agent.policy.guard import GATES, check_gates, with_gate
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.environment import Environment
from tests.documentation.gate_tables import PAGE
from tests.scripted_turns import TableServer, asks, calls, engine_of

TWO = calls(("add_task", {"description": "a"}), ("add_task", {"description": "b"}))


def is_first_task(hand: CallInHand) -> GuardVerdict | None:
    if hand.name != "add_task" or not any(one.tool_name == "add_task" for one in hand.running):
        return None
    return hand.refused("one task at a time", rule="one task at a time")


ROW = Gate("cool-down", is_first_task, "the message has added no task before")


def one_at_a_time() -> Any:
    return build_graph(gates=with_gate(ROW, before="dry run"))


async def _replayed(engine: LLMAgentEngine, record: DecisionRecord, graph: Any = None) -> ReplayReport:
    return await replay(record, await engine.audit.texts(list(record.header.digests.values())), graph=graph)


async def test_a_gate_is_one_function_and_one_row(environment: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = environment.runtime(ScriptedAdapter([TWO, says("Done.")] * 2), graph=one_at_a_time())
    app = create_app(replace(runtime, build_graph=one_at_a_time))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        replied = (await client.post("/api/chat", json={"content": "add two"})).json()
        url = f"/api/decisions/{replied['decision_id']}"
        shown = (await client.get(url)).json()
        states = (await client.get(f"{url}/states")).json()
        gates = (await client.get("/api/topology")).json()["gates"]
        metrics = (await client.get("/api/metrics")).json()
    # The reply, and the page's data.
    assert "One task at a time." in str(replied)
    assert [(one["disposition"], one.get("gate")) for one in shown["tool_invocations"]] == [
        ("executed", None),
        ("refused", "cool-down"),
    ]
    assert [one["gate"] for visit in states for one in visit["calls"]] == [None, "cool-down"]
    assert {"name": "cool-down", "decides": "the message has added no task before", "reads": None} in gates
    assert metrics["gates"] == {"cool-down": 1}
    record = await runtime.audit.load(replied["decision_id"])
    assert isinstance(record, DecisionRecord)
    assert (await _replayed(runtime.engine, record, one_at_a_time())).identical
    # The log.
    print_record(record)
    assert "refused at: cool-down" in capsys.readouterr().out
    # The docs and the diagram.
    table = with_gate(ROW, before="dry run")
    assert "| cool-down | the message has added no task before |  |\n" in gate_table(table)
    assert '["cool-down"]' in gate_chart(table)


async def test_a_dry_run_passes_an_added_gate() -> None:
    turn = await engine_of(TWO, says("Done."), graph=one_at_a_time()).run(asks(dry_run=True))
    assert [one.gate for one in turn.record.invocations] == ["dry run", "cool-down"]


async def test_an_added_gate_may_ask() -> None:
    def asks_for_second(hand: CallInHand) -> Findings | None:
        first = is_first_task(hand) is None
        return None if first else hand.asking(Question(CallDisposition.AWAITING, "one at a time", "one task at a time"))

    table = with_gate(Gate("cool-down", asks_for_second, "a second task has a yes"), before="dry run")
    engine = engine_of(TWO, says("Done."), says("Done."), graph=build_graph(gates=table))
    turn = await engine.run(asks())
    assert "one task at a time" in turn.decision.reply
    assert turn.decision.pending_action is not None
    done = await engine.run(asks("yes", pending_confirmation=turn.decision.pending_action))
    assert [one.disposition for one in done.record.invocations] == [CallDisposition.EXECUTED]


async def test_an_added_gate_permits_nothing_that_another_one_stops(caplog: pytest.LogCaptureFixture) -> None:
    def lets_through(hand: CallInHand) -> Findings:
        return hand.found._replace(question=None)

    table = with_gate(Gate("open", lets_through, "nothing"), before="dry run")
    server = TableServer()
    engine = engine_of(calls(("delete_task", {"task_id": "1"})), says("No."), server=server, graph=build_graph(gates=table))
    turn = await engine.run(asks())
    assert ([one.gate for one in turn.record.invocations], server.sent) == (["open"], [])
    assert "the gate 'open' may stop a call or ask about it, and change nothing else" in caplog.text


async def test_a_call_at_which_an_added_gate_fails_is_refused_and_what_was_done_before_is_kept() -> None:
    def fails(hand: CallInHand) -> GuardVerdict | None:
        return None if is_first_task(hand) is None else hand.refused(hand.arguments["no such argument"])

    graph = build_graph(gates=with_gate(Gate("cool-down", fails, "the message has added no task before"), before="dry run"))
    server = TableServer()
    engine = engine_of(TWO, says("Done."), server=server, graph=graph)
    turn = await engine.run(asks())
    assert (turn.record.status, len(server.sent)) == (RecordStatus.COMPLETED, 1)
    assert [(one.disposition, one.gate) for one in turn.record.invocations] == [
        (CallDisposition.EXECUTED, None),
        (CallDisposition.REFUSED, "cool-down"),
    ]
    assert "It could not be checked." in "\n".join(turn.decision.notices)
    assert (await _replayed(engine, turn.record, graph)).identical


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (GATES[1:], "lacks a shipped one"),
        ((GATES[1], GATES[0], *GATES[2:]), "in another order"),
        ((*GATES, ROW), "the gate 'cool-down' must come before 'dry run'"),
        ((ROW, ROW, *GATES), "two gates have the name 'cool-down'"),
    ],
)
def test_a_table_has_the_shipped_gates_in_their_order(table: tuple[Gate, ...], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        check_gates(table)
    with pytest.raises(ConfigurationError, match=why):
        build_graph(gates=table)


def test_the_place_of_a_gate_is_named() -> None:
    with pytest.raises(ConfigurationError, match="there is no gate 'dry': the gates are batch, left out, listed"):
        with_gate(ROW, before="dry")


async def test_a_replay_passes_the_gates_in_the_order_of_the_record() -> None:
    first, last = (build_graph(gates=with_gate(ROW, before=before)) for before in ("facts", "dry run"))
    engine = engine_of(TWO, says("Done."), graph=first)
    turn = await engine.run(asks())
    assert (await _replayed(engine, turn.record, last)).identical
    missing = await _replayed(engine, turn.record)
    assert "the record was made with the gate 'cool-down', which this process does not have" in str(missing.departure)


async def test_a_gate_that_has_stopped_nothing_is_not_needed_for_a_replay() -> None:
    engine = engine_of(calls(("add_task", {"description": "a"})), says("Done."), graph=one_at_a_time())
    assert (await _replayed(engine, (await engine.run(asks())).record)).identical


async def test_a_record_that_is_older_than_the_names_of_gates_is_replayed() -> None:
    engine = engine_of(TWO, says("Done."))
    turn = await engine.run(asks())
    assert turn.record.header.gates is not None
    older = turn.record.replace(header=turn.record.header.replace(gates=None))
    assert (await _replayed(engine, older)).identical


def test_the_documentation_has_the_table_of_gates() -> None:
    assert gate_table() in PAGE.read_text(), "run `make diagrams`"
