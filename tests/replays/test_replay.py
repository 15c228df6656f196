"""Replay: a decision runs again, offline, from its record alone, and every change is reported."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

import graph_agent
from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.db import Database, migrate
from graph_agent.errors import ConstitutionError, RateLimitError
from graph_agent.graph import build, topology
from graph_agent.graph.nodes.build_decision import build_decision
from graph_agent.graph.nodes.build_request import build_request
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.record import DecisionRecord, EntryKind, InterruptReason
from graph_agent.policy.constitution import Constitution
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import Replayer, replay
from graph_agent.replays.report import Difference
from graph_agent.task_server.server import build_task_server
from graph_agent.testing import says
from graph_agent.tools.executor import McpToolExecutor
from tests.record.trees import tree_of, verified
from tests.replays.random_turns import TASK, RandomTurns, refused_before_the_graph, run_all_kinds
from tests.scripted_turns import calls

KEY = derive_record_key(b"a secret of sixteen bytes at least")


@pytest.fixture
def log() -> Any:
    database = Database.open("sqlite://")
    migrate(database, "graph_agent.record")
    yield database
    database.close_now()


@pytest.fixture(params=[0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))])
async def random_turns(log: Database, request: pytest.FixtureRequest) -> AsyncIterator[RandomTurns]:
    """The turns of one seed: a quarter of the thousand, so that several test processes can share them."""
    tasks = Database.open("sqlite://")
    migrate(tasks, "graph_agent.task_server")
    async with McpToolExecutor(build_task_server(tasks)) as tools:
        yield RandomTurns(DatabaseAuditWriter(log, record_key=KEY), seed=request.param, real_tools=tools)
    await tasks.close()


async def all_texts(log: Database) -> Mapping[str, str]:
    rows = await log.read(lambda connection: connection.exec_driver_sql("SELECT digest, text FROM record_blobs").all())
    return {row[0]: row[1] for row in rows}


async def all_records(log: Database) -> list[DecisionRecord]:
    wanted = "SELECT record FROM decision_logs ORDER BY created_at, decision_id"
    texts = await log.read(lambda connection: [row[0] for row in connection.exec_driver_sql(wanted)])
    return [DecisionRecord.model_validate_json(text) for text in texts]


async def test_a_thousand_mixed_turns_replay_identically_and_their_log_is_intact(
    random_turns: RandomTurns, log: Database, caplog: pytest.LogCaptureFixture
) -> None:
    # Many of the turns fail on purpose: their log lines would hide a real failure.
    caplog.set_level(logging.CRITICAL, logger="graph_agent")
    async for _ in run_all_kinds(random_turns, rounds=6):
        pass
    records, texts = await all_records(log), await all_texts(log)
    assert len(records) >= 250
    replayer = Replayer()
    differing = []
    for record in records:
        report = await replayer.replay(record, texts)
        if not report.identical:
            differing.append(report.to_json())
    assert differing == []
    assert {record.decision.decision_type for record in records} == set(DecisionType)
    assert {record.decision.outcome_category for record in records} == set(OutcomeCategory) - {
        OutcomeCategory.INTENT_CLASSIFICATION
    }
    ended = {entry.result["reason"] for record in records for entry in record.entries if entry.kind is EntryKind.INTERRUPT}
    # A stop is replayed in tests/chat/test_stops.py, an activation in tests/record/test_activated_rules.py.
    others = {InterruptReason.RECORD, InterruptReason.STOPPED, InterruptReason.RULES}
    assert ended == set(InterruptReason) - others
    assert {entry.kind for record in records for entry in record.entries} == set(EntryKind) - {
        EntryKind.KNOWN_REQUESTS,  # of approval requests: tests/chat/test_approvals.py
        EntryKind.UNDO,  # tests/turn/test_undo.py
    }
    await tree_of(log).seal()
    in_tree = await verified(log, key=KEY)
    assert in_tree.violations == []
    assert in_tree.records == len(records)


@pytest.fixture
async def two_rounds(log: Database) -> tuple[DecisionRecord, Mapping[str, str]]:
    """A turn that lists, adds and answers, with its texts."""
    turns = RandomTurns(DatabaseAuditWriter(log), seed=1)
    record = await turns.turn(
        calls(("list_tasks", {"status": "all"})), calls(("add_task", {"description": "call mom"})), says("Added it.")
    )
    return record, await all_texts(log)


async def test_a_replay_reports_every_state(two_rounds: Any) -> None:
    record, texts = two_rounds
    # The public name is the same whether or not the module of this name was imported.
    report = await graph_agent.replay(record, texts)
    assert report.identical
    assert [step.state for step in report.steps] == record.states
    assert report.steps[-1].outcome == "decided"
    assert report.replayed == record
    assert report.to_json()["identical"] is True


async def test_any_changed_leaf_of_a_record_makes_its_replay_differ(two_rounds: Any) -> None:
    record, texts = two_rounds
    replayer = Replayer()
    original = json.loads(canonical_json(record.to_json()))
    unnoticed = []
    for path, value in leaves(original):
        changed = with_leaf(original, path, value)
        try:
            altered = DecisionRecord.model_validate(changed)
        except ValidationError:
            continue
        if altered != record and (await replayer.replay(altered, texts)).identical:
            unnoticed.append(".".join(map(str, path)))
    # Facts that nothing else in the record depends on: only the seal of the chain covers them.
    assert sorted(unnoticed) == [
        "entries.0.ms",
        "entries.1.result.duration_ms",
        "entries.2.ms",
        "entries.3.result.duration_ms",
        "entries.4.ms",
        "header.context.conversation_id",
        "header.model",
        "state_ends_us.13",
    ]


async def test_a_changed_constitution_is_reported(two_rounds: Any) -> None:
    record, texts = two_rounds
    name = record.header.constitution
    report = await replay(record, {**texts, name: texts[name].replace("helpful", "harmful")})
    assert [one.what for one in report.differences] == ["the text of the constitution", "the text of the prompt"]


@pytest.mark.parametrize("name", ["constitution", "tools", "settings", "prompt"])
async def test_a_missing_text_is_named(two_rounds: Any, name: str) -> None:
    record, texts = two_rounds
    left = {key: text for key, text in texts.items() if key != getattr(record.header, name)}
    report = await replay(record, left)
    assert f"the text of the {name}" in [one.what for one in report.differences]
    assert not report.identical


async def test_changed_routing_is_reported_with_both_paths(two_rounds: Any) -> None:
    record, texts = two_rounds
    rerouted = {**topology.TOPOLOGY, "CHECK_ITERATIONS": {"below_cap": "TIMEOUT_RESPONSE", "cap_reached": "TIMEOUT_RESPONSE"}}
    report = await replay(record, texts, graph=build.build_graph(rerouted))
    assert not report.identical
    path = report.differences[0]
    assert (path.what, path.recorded) == ("path", " -> ".join(record.states))
    assert path.replayed.endswith("CHECK_ITERATIONS -> TIMEOUT_RESPONSE -> BUILD_DECISION")
    assert report.departure == "the turn ended before it requested entry 2 of the record (model)"


async def test_a_node_that_decides_differently_is_reported(two_rounds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    record, texts = two_rounds

    async def shouting(turn: Turn, runtime: TurnRuntime) -> Turn:
        decided = await build_decision(turn, runtime)
        assert decided.decision is not None
        return decided.to("decided", decision=decided.decision.replace(response_text=decided.decision.reply.upper()))

    # A changed program: `build_graph` takes no other function for a shipped state.
    monkeypatch.setattr(build, "NODES", {**build.NODES, "BUILD_DECISION": shouting})
    report = await replay(record, texts, graph=build.build_graph())
    assert report.differences == (Difference("decision.response_text", "Added it.", "ADDED IT."),)


async def test_a_node_that_makes_another_port_request_ends_the_replay_there(
    two_rounds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, texts = two_rounds

    async def curious(turn: Turn, runtime: TurnRuntime) -> Turn:
        runtime.ports.new_id()
        return turn.to("appended")

    # A changed program: `build_graph` takes no other function for a shipped state.
    monkeypatch.setattr(build, "NODES", {**build.NODES, "APPEND_RESULTS": curious})
    report = await replay(record, texts, graph=build.build_graph())
    assert report.departure is not None
    assert report.departure.startswith("APPEND_RESULTS: entry 2: the record holds model")
    assert [step.state for step in report.steps] == record.states[:4]


async def test_a_changed_model_request_is_reported_and_the_replay_continues(
    two_rounds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, texts = two_rounds

    async def louder(turn: Turn, runtime: TurnRuntime) -> Turn:
        built = await build_request(turn, runtime)
        assert built.prompt is not None
        longer = built.prompt.request.model_copy(update={"max_tokens": 7})
        return built.to("request_built", prompt=replace(built.prompt, request=longer))

    # A changed program: `build_graph` takes no other function for a shipped state.
    monkeypatch.setattr(build, "NODES", {**build.NODES, "BUILD_REQUEST": louder})
    report = await replay(record, texts, graph=build.build_graph())
    assert report.departure is None
    assert [one.what for one in report.differences] == [f"entries[{place}].request" for place in (0, 2, 4)]
    assert report.replayed is not None
    assert report.replayed.decision == record.decision


SHIPPED = Constitution.load().text


async def test_a_constitution_that_grants_less_refuses_the_call_and_ends_where_the_answer_is_unknown(
    two_rounds: Any,
) -> None:
    record, texts = two_rounds
    report = await replay(record, texts, constitution=SHIPPED.replace('- add_task: "Add task[ {description}]"\n', ""))
    assert report.departure == (
        "add_task would have been refused: not in the constitution. What the model would have said then is unknown"
    )
    assert report.to_json()["refused"] == [{"tool_name": "add_task", "rule": "not in the constitution"}]
    [difference] = report.differences
    # The list was the first call, and is the same.
    assert difference == Difference(
        "calls[1]",
        'add_task {"description":"call mom"}: executed, done',
        'add_task {"description":"call mom"}: refused, there is no such tool',
    )
    assert report.turn is not None
    assert [(call.call.name, call.disposition) for call in report.turn.calls] == [
        ("list_tasks", "executed"),
        ("add_task", "refused"),
    ]


async def test_a_constitution_that_requires_a_confirmation_would_have_asked(two_rounds: Any) -> None:
    record, texts = two_rounds
    stricter = SHIPPED.replace(
        '- add_task: "Add task[ {description}]"', '- add_task: "Add task[ {description}]" (requires confirmation)'
    )
    report = await replay(record, texts, constitution=stricter)
    assert report.departure is None
    replayed = {one.what: one.replayed for one in report.differences}
    assert replayed["decision type"] == "REQUEST_CONFIRMATION"
    assert replayed["asks to confirm"] == '["add_task",{"description":"call mom"}]'
    assert replayed["reply"].startswith("Add task 'call mom'. Should I go ahead?")


async def test_a_constitution_with_another_wording_decides_the_same(two_rounds: Any) -> None:
    record, texts = two_rounds
    report = await replay(record, texts, constitution=SHIPPED.replace("helpful", "friendly"))
    assert report.identical
    assert report.replayed is not None
    assert report.replayed.decision == record.decision


async def test_without_the_confirmation_a_call_would_run_that_has_no_recorded_result(log: Database) -> None:
    turns = RandomTurns(DatabaseAuditWriter(log), seed=1)
    record = await turns.turn(calls(("delete_task", {"task_id": TASK})))
    looser = SHIPPED.replace(" (requires confirmation)", "")
    report = await replay(record, await all_texts(log), constitution=looser)
    assert report.departure == (
        f'EXECUTE_TOOLS: ["delete_task",{{"task_id":"{TASK}"}}] would be run, which the record has no answer to'
    )


async def test_an_invalid_policy_is_refused_with_the_number_of_its_line(two_rounds: Any) -> None:
    record, texts = two_rounds
    with pytest.raises(ConstitutionError, match="line 2"):
        await replay(record, texts, constitution="## Available Tools\n add_task\n")


async def test_a_live_model_is_called_and_recorded_tool_results_are_used(two_rounds: Any) -> None:
    record, texts = two_rounds
    script = [
        calls(("list_tasks", {"status": "all"})),
        calls(("add_task", {"description": "call mom"})),
        says("Mom is on your list."),
    ]
    with ScriptedAdapter(script) as adapter:
        report = await replay(record, texts, live=adapter)
    assert report.departure is None
    assert report.differences == (Difference("reply", "Added it.", "Mom is on your list."),)
    assert [message.role for message in adapter.requests[2].messages].count("function") == 2


async def test_a_live_model_that_requests_another_effect_ends_the_replay_before_it(two_rounds: Any) -> None:
    record, texts = two_rounds
    with ScriptedAdapter([calls(("add_task", {"description": "something else"}))]) as adapter:
        report = await replay(record, texts, live=adapter)
    assert report.departure == (
        'EXECUTE_TOOLS: ["add_task",{"description":"something else"}] would be run, which the record has no answer to'
    )


async def test_a_failure_of_a_live_model_is_a_decision(two_rounds: Any) -> None:
    record, texts = two_rounds
    with ScriptedAdapter([RateLimitError()]) as adapter:
        report = await replay(record, texts, live=adapter)
    assert report.replayed is not None
    assert report.replayed.decision.outcome_category is OutcomeCategory.RATE_LIMITED


async def test_a_message_refused_before_the_graph_must_not_have_effects(log: Database) -> None:
    record = await refused_before_the_graph(RandomTurns(DatabaseAuditWriter(log), seed=1))
    texts = await all_texts(log)
    assert (await replay(record, texts)).identical
    forged = record.replace(decision=record.decision.replace(effects=["deleted 'everything'"]))
    assert [one.what for one in (await replay(forged, texts)).differences] == ["decision.effects[0]"]
    relabelled = record.replace(decision=record.decision.replace(outcome_category=OutcomeCategory.TASK_COMPLETED))
    assert not (await replay(relabelled, texts)).identical


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path of every leaf of a JSON value, with another value of the same type."""
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from leaves(child, (*path, name))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from leaves(child, (*path, index))
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int | float):
        yield path, value + 1
    elif isinstance(value, str):
        yield path, value.replace("09:", "08:") if "T09:" in value else value[:-1] + ("a" if value[-1:] != "a" else "b")


def with_leaf(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    """Return a copy of `value` with another leaf at `path`."""
    if not path:
        return leaf
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_leaf(value[path[0]], path[1:], leaf)
    return copy
