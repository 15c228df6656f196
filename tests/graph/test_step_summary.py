"""The summaries of steps, which `step`, `replay` and the page's replay show: every field of a turn has one."""

from __future__ import annotations

from graph_agent.graph.step_summary import summarize
from graph_agent.models.decision import AfterYes
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.desk import cancel, card_talk, move
from tests.scripted_turns import calls
from tests.turn.test_undo import Desk


async def summaries(engine: LLMAgentEngine, finished: FinishedTurn) -> dict[str, str]:
    """Return the summaries of all steps of a turn; of a field that changed twice the last one."""
    found: dict[str, str] = {}
    snapshot = await engine.snapshot_of(finished.record.header)
    async for step in engine.steps_of(finished.record, snapshot):
        found |= summarize(step)
    return found


async def test_reads_of_the_runtime_are_summarized_as_calls() -> None:
    desk = Desk()
    asked = await desk.undo(await desk.call(move("W1", "Birch 9")))
    assert (await summaries(desk.engine, asked))["fact_reads"] == 'get_order {"order_id":"W1"}'


async def test_the_report_from_which_the_model_goes_on_is_summarized_as_text() -> None:
    talk = card_talk(calls(cancel("1")), says("All is done."), after_yes=AfterYes.GO_ON)
    await talk.say("cancel it")
    found = await summaries(talk.engine, await talk.say("yes"))
    assert found["report"].startswith("Done: Cancel order: 'order 1 (placed)'")
