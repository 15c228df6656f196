"""A dry run: calls are judged, and nothing that writes is sent."""

from __future__ import annotations

from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.record import CallDisposition
from graph_agent.testing import says
from tests.scripted_turns import TableServer, asks, calls, engine_of
from tests.turn.test_conditions import replayed


async def test_a_dry_run_sends_reads_only_and_is_recorded_as_such() -> None:
    server = TableServer()
    requested = calls(("list_tasks", {}), ("add_task", {"description": "call mom"}), ("delete_task", {"task_id": "t1"}))
    run = engine_of(requested, says("That would be all."), server=server)
    finished = await run.run(asks(dry_run=True))
    assert [name for name, *_ in server.sent] == ["list_tasks"]
    assert [one.disposition for one in finished.record.invocations] == [
        CallDisposition.EXECUTED,
        CallDisposition.REFUSED,
        CallDisposition.REFUSED,
    ]
    assert finished.record.header.context.dry_run
    assert finished.decision.pending_action is None
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GIVEN
    assert (await replayed(run, finished)).identical
