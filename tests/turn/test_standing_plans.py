"""Standing plans: made from a decision, for the runs of one job of one user, and bounded by forms."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import delete, update

from graph_agent.audit.retention import remove_decisions
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import CONFIRMATION_LIFETIME, DecisionType
from graph_agent.models.mandate import MandateState, MandateView, PlanChoice
from graph_agent.models.record import CallDisposition, EntryKind
from graph_agent.models.stop import Stop, StopScope
from graph_agent.models.tools import ToolResult
from graph_agent.record.mandates import list_mandates, revoke, void
from graph_agent.record.stops import place_stop
from graph_agent.record.tables import mandate_draws, mandates
from graph_agent.record.tree.leaves import Sealer
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.finished import FinishedTurn
from tests.record.trees import tree_of, verified
from tests.replayed_turns import replayed
from tests.scripted_turns import asks, calls, done, failed
from tests.turn.test_plans import ASKS, AWAITING, EXECUTED, Desk, became, line, plan, refund
from tests.turn.test_recorded_plans import FIND, FOUND, AgainDesk

JOB = "nightly"


class JobDesk(AgainDesk):
    """A desk with a job, whose runs each begin a conversation."""

    runs = 0

    async def made(self) -> FinishedTurn:
        """Refund what a tool has named, after a yes to exactly that."""
        await self.say("refund 10 to what find order has")
        return await self.say("yes")

    async def stand(self, of: FinishedTurn, **choice: Any) -> FinishedTurn:
        await self.again(of, {"job": JOB, **choice})
        return await self.say("yes")

    async def start(self, job: str = JOB, user: str = "ann", **more: Any) -> FinishedTurn:
        self.clock.advance(seconds=1)
        self.runs += 1
        named = {"conversation_id": f"run {self.runs}", "user_id": user, "job": job, **more}
        self.turns.append(await replayed(self.engine, await self.engine.run(asks("refund 10 to new orders", **named))))
        return self.turns[-1]

    async def standing(self) -> MandateView:
        found = await self.log.read(lambda connection: list_mandates(connection, self.clock.now()))
        return next(one for one in found if one.mandate.plan.job)


MAKE = [calls(FIND), calls(refund("W77"))]
RUN = [calls(FIND), calls(refund("W78")), says("Refunded.")]


async def test_a_standing_plan_covers_each_of_its_runs(log: Database) -> None:
    twice = [calls(FIND), calls(refund("W77"), refund("W78")), says("Refunded.")]
    over = [*twice[:2], calls(refund("W79"))]
    answers = {"find_order": done({"orders": [{"id": "W77"}, {"id": "W78"}, {"id": "W79"}]})}
    script = [calls(FIND), calls(refund("W77"), refund("W78")), *twice, *over, *RUN[:2]]
    desk = JobDesk(log, script, answers=answers)
    made = await desk.made()
    asked = await desk.again(made, {"job": JOB, "minutes": 2 * 24 * 60})
    assert asked.decision.reply == (
        'Standing plan, in each of at most 2 runs of the job "nightly", at most:\n'
        '1. Refund: amount = 10; order a code that "Find order" brings (others can write there); up to 2 times\n'
        "In all at most: Refund, amount 40.\n"
        "For 2 days after your yes. Each call runs without asking you again, also while you are away; anything else waits for "
        "your answer.\nShould I go ahead? Please answer yes or no."
    )
    agreed = await desk.say("yes")
    assert (agreed.record.states, agreed.decision.decision_type) == (
        ["BUILD_REQUEST", "BUILD_DECISION"],
        DecisionType.RESPOND_ONLY,
    )
    assert agreed.decision.reply == (
        'Your plan is in force for 2 days, in each of at most 2 runs of the job "nightly". You can stop it at any time.'
    )
    first = await desk.start()
    assert became(first) == [EXECUTED, EXECUTED, EXECUTED]
    assert [one[-14:] for one in first.decision.effects] == ["(plan, 1 of 2)", "(plan, 2 of 2)"]
    view = await desk.standing()
    assert (view.state, view.runs, view.drawn) == (MandateState.OPEN, 1, (2,))
    # What is left of the plan is for another run.
    second = await desk.start()
    assert became(second) == [EXECUTED, EXECUTED, EXECUTED, AWAITING]
    drawn = [one.result["mandate"] for one in second.record.entries if one.kind is EntryKind.RESERVE]
    assert [(one["drawn"], one["times"], one["run"]) for one in drawn] == [(1, 2, 2), (2, 2, 2)]
    view = await desk.standing()
    assert (view.state, view.runs, view.drawn) == (MandateState.USED, 2, (4,))
    assert became(await desk.start()) == [EXECUTED, AWAITING]
    texts = await desk.engine.audit.texts(list(first.record.header.digests.values()))
    without = await replay(first.record, texts, mandates=False)
    assert without.replayed is not None
    assert [one.disposition for one in without.replayed.invocations] == [EXECUTED, AWAITING, AWAITING]
    await tree_of(log, None).seal()
    assert (await verified(log, key=None)).violations == []


@pytest.mark.parametrize("given", [{"job": "other"}, {"job": ""}, {"user": "bob"}])
async def test_it_covers_no_other_job_no_conversation_and_no_other_user(log: Database, given: dict[str, Any]) -> None:
    desk = JobDesk(log, [*MAKE, *RUN[:2]], answers={**FOUND})
    await desk.stand(await desk.made())
    assert became(await desk.start(**given)) == [EXECUTED, AWAITING]


async def test_two_users_have_jobs_of_one_name(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN, *RUN[:2]], answers={**FOUND})
    await desk.stand(await desk.made())
    assert became(await desk.start()) == [EXECUTED, EXECUTED]
    assert became(await desk.start(user="bob")) == [EXECUTED, AWAITING]


async def test_a_call_that_does_not_fit_waits_for_a_day_and_its_answer_continues_the_run(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, calls(FIND), calls(refund("W78", 99)), calls(refund("W77")), says("Both.")], answers={**FOUND})
    await desk.stand(await desk.made())
    asked = await desk.start()
    pending = asked.decision.pending_action
    assert pending is not None
    assert (pending.job, pending.expires_at - pending.created_at) == (JOB, timedelta(hours=24))
    desk.clock.advance(seconds=23 * 3600)
    done_late = await desk.engine.answer(asked, yes=True)
    assert became(done_late) == [EXECUTED, EXECUTED]
    assert done_late.decision.effects[1].endswith("(plan, 1 of 1)")
    # A question outside of jobs waits as before.
    alone = JobDesk(log, [calls(refund("W5"))])
    waits = (await alone.say("refund W5")).decision.pending_action
    assert waits is not None
    assert (waits.job, waits.expires_at - waits.created_at) == ("", CONFIRMATION_LIFETIME)


async def test_only_a_form_bounds_what_a_run_reads_so_each_value_has_one(log: Database) -> None:
    """A text without a form stands in the plan as it was, with its warning; in a conversation it is taken from the tool."""
    answers = {"find_order": done({"note": "please write to the shop"})}
    mail = ("send_mail", {"to": "shop", "text": "please write to the shop"})
    desk = JobDesk(log, [calls(FIND), calls(mail)], answers=answers)
    await desk.say("send the note to shop")
    made = await desk.say("yes")
    assert became(made) == [EXECUTED]
    _, within = await desk.engine.repeatable(made.record.header.decision_id, "ann")
    assert within.plan is not None
    assert within.plan.lines[0].to_json()["arguments"]["text"] == {"from": "find_order"}
    asked = await desk.again(made, {"job": JOB})
    said = '1. Send mail: text = "please write to the shop" (not your words: from "Find order"); to = '
    assert asked.decision.reply.splitlines()[1].startswith(said)
    with pytest.raises(ServiceError, match="permits more than a line"):
        await desk.again(made, {"job": JOB, "lines": [one.to_json() for one in within.plan.lines]})


async def test_it_lasts_thirty_days_and_at_most_ninety(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN[:2]], answers={**FOUND})
    made = await desk.made()
    for minutes in (90 * 24 * 60 + 1, 0):
        with pytest.raises(ValidationError):
            PlanChoice(job=JOB, minutes=minutes)
    asked = await desk.again(made, {"job": JOB, "minutes": 90 * 24 * 60})
    assert "For 90 days after your yes" in asked.decision.reply
    await desk.say("yes")
    desk.clock.advance(seconds=90 * 24 * 3600)
    assert became(await desk.start()) == [EXECUTED, AWAITING]
    assert (await desk.standing()).state is MandateState.EXPIRED


async def test_it_outlives_the_record_of_its_yes(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN], answers={**FOUND})
    agreed = await desk.stand(await desk.made())
    await log.write(lambda connection: remove_decisions(connection, [agreed.record.header.decision_id]))
    assert became(await desk.start()) == [EXECUTED, EXECUTED]


async def test_it_ends_as_every_other_plan(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN[:2] * 4], answers={**FOUND})
    made = await desk.made()

    async def state_after(work: Any) -> MandateState:
        await desk.stand(made)
        await work()
        assert became(await desk.start()) == [EXECUTED, AWAITING]
        return (await desk.standing()).state

    sealer = Sealer(None)
    of_ann = {"by": "ann", "user_id": "ann"}
    assert await state_after(lambda: log.write(lambda c: revoke(c, log.time(), sealer, **of_ann))) is MandateState.REVOKED
    assert await state_after(lambda: log.write(lambda c: void(c, desk.clock.now()))) is MandateState.VOID

    async def other_rules() -> None:
        desk.engine = desk.new_engine(ASKS.replace("W666", "W667"))

    assert await state_after(other_rules) is MandateState.VOID


@pytest.mark.parametrize("end", ["revoked", "void", "expired", "stopped"])
async def test_a_plan_that_ends_while_a_run_is_under_way_covers_no_further_call(log: Database, end: str) -> None:
    desk = JobDesk(log, [*MAKE, *RUN[:2]], answers={**FOUND})
    await desk.stand(await desk.made(), minutes=1)

    async def end_plan(_: Any) -> ToolResult:
        match end:
            case "revoked":
                await log.write(lambda c: revoke(c, log.time(), Sealer(None), by="ann", user_id="ann"))
            case "void":
                await log.write(lambda c: void(c, desk.clock.now()))
            case "expired":
                desk.clock.advance(seconds=60)
            case _:
                await place_stop(log, Stop(number=0, scope=StopScope.USER, name="ann", by="olga"))
        return FOUND["find_order"]

    desk.server.answers["find_order"] = end_plan
    assert became(await desk.start()) == [EXECUTED, CallDisposition.SKIPPED if end == "stopped" else AWAITING]


async def test_of_runs_at_once_only_as_many_draw_as_the_plan_has(log: Database) -> None:
    desk = JobDesk(log, MAKE, answers={**FOUND})
    await desk.stand(await desk.made(), runs=2)

    async def end_of(number: int) -> CallDisposition:
        desk.model = ScriptedAdapter(RUN)
        run = asks("refund it", user_id="ann", conversation_id=f"run {number}", job=JOB)
        return became(await desk.new_engine().run(run))[-1]

    ends = await asyncio.gather(*map(end_of, range(3)))
    assert sorted(ends) == [AWAITING, EXECUTED, EXECUTED]


async def test_the_job_of_a_plan_that_was_changed_by_hand_covers_nothing_and_is_found(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN[:2]], answers={**FOUND})
    await desk.stand(await desk.made())
    await log.write(lambda connection: connection.execute(update(mandates).values(job="other")).close())
    assert became(await desk.start("other")) == [EXECUTED, AWAITING]
    await tree_of(log, None).seal()
    (found,) = (await verified(log, key=None)).violations
    assert found.text.endswith("was added or changed by hand: it covers no call")


async def test_a_model_proposes_no_plan_for_a_job(log: Database) -> None:
    desk = Desk(log, [plan(line(order={"is": ["W1"]}, amount={"at_most": 5}), job=JOB), says("No plan.")])
    assert (await desk.say("refund")).decision.pending_action is None


async def test_a_plan_that_is_used_up_hides_no_later_one_for_the_job(log: Database) -> None:
    desk = JobDesk(log, [*MAKE, *RUN * 2], answers={**FOUND})
    made = await desk.made()
    await desk.stand(made, runs=1)
    assert became(await desk.start()) == [EXECUTED, EXECUTED]
    await desk.stand(made, runs=1)
    assert became(await desk.start()) == [EXECUTED, EXECUTED]


async def test_a_call_that_certainly_failed_frees_its_run(log: Database) -> None:
    outcomes = iter([done(), failed(ToolErrorCode.NOT_FOUND), done()])
    desk = JobDesk(log, [*MAKE, *RUN, *RUN, *RUN[:2]], answers={**FOUND, "refund": lambda _: next(outcomes)})
    await desk.stand(await desk.made(), runs=1)
    assert became(await desk.start()) == [EXECUTED, EXECUTED]
    assert ((await desk.standing()).runs, (await desk.standing()).state) == (0, MandateState.OPEN)
    assert became(await desk.start()) == [EXECUTED, EXECUTED]
    assert became(await desk.start()) == [EXECUTED, AWAITING]
    await tree_of(log, None).seal()
    assert (await verified(log, key=None)).violations == []


@pytest.mark.parametrize(
    ("runs", "again", "found"),
    [
        (1, {}, "2 conversations, and not 1, have calls under the plan"),
        (2, {"conversation_id": "run 1"}, "2 calls, and not 1, ran in one conversation under line 1 of the plan"),
    ],
)
async def test_calls_after_draws_were_removed_by_hand_are_found(
    log: Database, runs: int, again: dict[str, str], found: str
) -> None:
    desk = JobDesk(log, [*MAKE, *RUN, *RUN], answers={**FOUND})
    await desk.stand(await desk.made(), runs=runs)
    assert became(await desk.start()) == [EXECUTED, EXECUTED]
    await log.write(lambda connection: connection.execute(delete(mandate_draws)).close())
    assert became(await desk.start(**again)) == [EXECUTED, EXECUTED]
    await tree_of(log, None).seal()
    (violation,) = (await verified(log, key=None)).violations
    assert violation.text.startswith(found)
