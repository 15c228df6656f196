"""Cases that play their tools: the results of the record, and nothing that the record does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.models.record import DecisionRecord
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.ports import ToolServer
from graph_agent.tools.functions import FunctionTools
from graph_agent.tools.played import PlayedResult, PlayedTool, PlayedTools
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.validation.case_writer import dump_fixtures, fixture_from_records, recorded_tools
from graph_agent.validation.fixtures import Fixture, load_fixtures
from graph_agent.validation.runner import EngineRunner
from graph_agent.validation.service import ValidationReport, ValidationService
from tests.permission import permitted

CONSTITUTION = """# Shop

You order things.

## Available Tools
- stock: Show how many there are (reads)
- order: Order things (without confirmation) (owner is the signed-in user)
"""
SAID = LLMResponse(content="Done.", finish_reason="stop")


def calls(*called: FunctionCall) -> LLMResponse:
    return LLMResponse(function_calls=list(called), finish_reason="tool_calls")


STOCK = FunctionCall("stock", {"item": "bolt"})
ORDER = FunctionCall("order", {"item": "bolt", "owner": "ann"})


async def decide(adapter: ScriptedAdapter, **options: Any) -> tuple[DecisionRecord, dict[str, str]]:
    """Return the record of one turn of ann, and its texts; the stock of bolts is one larger each time it is looked up."""
    looked_up = 0

    async def stock(item: str) -> dict[str, Any]:
        """Return how many there are."""
        nonlocal looked_up
        looked_up += 1
        return {"item": item, "count": looked_up}

    async def order(item: str, owner: str) -> dict[str, Any]:
        """Order one."""
        return {"ordered": item, "for": owner}

    functions: Any = FunctionTools(stock, order)
    engine = LLMAgentEngine(adapter, functions, CONSTITUTION, **options)
    record = (await engine.run(DecisionContext(user_id="ann", message="order a bolt", conversation_id="c"))).record
    return record, (await engine.prepare()).texts


async def play(fixture: Fixture, adapter: ScriptedAdapter, **options: Any) -> ValidationReport:
    runner = EngineRunner(adapter, PlayedTools([]), CONSTITUTION, **options)
    return await ValidationService(runner).run_validation([fixture])


async def written(*steps: LLMResponse) -> Fixture:
    record, texts = await decide(ScriptedAdapter([*steps]))
    return fixture_from_records([record], tools=recorded_tools([record], texts), texts=texts)


async def test_each_call_gets_its_recorded_result_in_order_and_for_the_user_of_the_case(tmp_path: Path) -> None:
    steps = (calls(STOCK), calls(STOCK, ORDER), SAID)
    fixture = await written(*steps)
    assert [(one.tool, one.arguments, one.result.data) for one in fixture.turns[0].results] == [
        ("stock", {"item": "bolt"}, {"item": "bolt", "count": 1}),
        ("stock", {"item": "bolt"}, {"item": "bolt", "count": 2}),
        ("order", {"item": "bolt", "owner": "$user"}, {"ordered": "bolt", "for": "ann"}),
    ]
    file = tmp_path / "case.yaml"
    file.write_text(dump_fixtures([fixture]), encoding="utf-8")
    assert load_fixtures(file) == [fixture]
    own = calls(STOCK, FunctionCall("order", {"item": "bolt"}))
    report = await play(fixture, ScriptedAdapter([calls(STOCK), own, SAID]))
    assert report.results[0].failures == []


@pytest.mark.parametrize(
    ("other", "missing"),
    [
        (FunctionCall("order", {"item": "nut"}), "order"),
        (FunctionCall("stock", {"item": "nut"}), "stock"),
    ],
)
async def test_a_call_without_a_result_fails_the_case_also_if_the_decision_is_the_expected_one(
    other: FunctionCall, missing: str
) -> None:
    fixture = await written(calls(STOCK, ORDER), SAID)
    report = await play(fixture, ScriptedAdapter([calls(STOCK, FunctionCall("order", {"item": "bolt"}), other), SAID]))
    (failure, *_) = report.results[0].failures
    assert failure.startswith(f"the case has no result for {missing} {{")


async def test_a_result_is_given_once_and_only_in_its_turn() -> None:
    (turn,) = (await written(calls(STOCK), SAID)).turns
    twice = Fixture.model_validate(
        {
            "test_id": "t",
            "tools": [{"name": "stock"}],
            "turns": [{"input": "a", "expected_outcome": "", "results": turn.results}],
        }
    )
    report = await play(twice, ScriptedAdapter([calls(STOCK), calls(STOCK), SAID]))
    assert report.results[0].failures == ['the case has no result for stock {"item":"bolt"}']
    later = twice.replace(turns=[turn.replace(results=[], input="b"), turn])
    report = await play(later, ScriptedAdapter([calls(STOCK), SAID, calls(STOCK), SAID]))
    assert report.results[0].failures[0].startswith("turn 1: the case has no result for stock")


def test_played_tools_are_a_tool_server_with_the_declared_traits() -> None:
    tools: ToolServer = PlayedTools([PlayedTool(name="look", traits=ToolTraits(read_only=True), server="shop")])
    assert isinstance(tools, ToolServer)
    assert (tools.traits("look").read_only, tools.traits("other")) == (True, ToolTraits())
    assert [one.name for one in tools.declarations()] == tools.get_available_tools() == ["look"]


async def test_a_preview_is_not_the_result_of_a_call() -> None:
    found = ToolResult(success=True, data={"description": "x"})
    shown = PlayedResult(tool="drop", arguments={"id": 1}, preview=True, result=found)
    tools = PlayedTools([PlayedTool(name="drop")], [shown])
    assert not (await tools.execute(permitted("drop", {"id": 1}))).success
    assert (await tools.preview("drop", {"id": 1}, "ann")).success
    assert tools.problems == ['the case has no result for drop {"id":1}']


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"results": [{"tool": "stock", "result": {"success": True}}]}, "results and reads belong to a case with tools"),
        ({"tools": [], "tasks": ["call mom"]}, "a case with tools has no tasks"),
        ({"tools": [], "expected_tasks": []}, "a case with tools has no tasks"),
        ({"tools": [{"name": ""}]}, "tools.0.name"),
    ],
)
def test_a_case_that_mixes_tasks_and_played_tools_is_refused(tmp_path: Path, case: dict[str, Any], why: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(f"{[{'test_id': 'a', 'input': 'hi', 'expected_outcome': '', **case}]}", encoding="utf-8")
    with pytest.raises(ServiceError, match=why):
        load_fixtures(file)
