"""Faults at every step of a turn that runs a card of three calls and lets the model go on."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from graph_agent.errors import RecordUnavailableError
from graph_agent.testing import says
from tests.invariants.adversary import Adversary
from tests.invariants.calls import ADD, LIST
from tests.invariants.checks import CANARY, CONFIRMED_TOOL
from tests.invariants.installation import FAULTS, LOG_WRITES, FaultInjector, open_installation
from tests.invariants.test_faults import attempted
from tests.scripted_turns import asks, calls


@pytest.mark.parametrize("ask_model", [True, False])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("kind", [*FAULTS, "log"])
async def test_a_fault_anywhere_on_a_card_leaves_each_effect_at_most_once(
    kind: str, before: bool, ask_model: bool, tmp_path: Path
) -> None:
    operations = LOG_WRITES if kind == "log" else {"generate", "execute", "preview", "consume"}
    seen = []
    async with open_installation(tmp_path) as installation:
        for at in itertools.count(1):
            user = f"user{at}"
            one = await installation.add(user, "water the plants")
            two = await installation.add(user, "buy bread")
            faults = FaultInjector(at, before=before, only=lambda name: name in operations)
            faults.make = FAULTS.get(kind, lambda: RecordUnavailableError(CANARY))
            card = (CONFIRMED_TOOL, {"task_id": one}), (CONFIRMED_TOOL, {"task_id": two}), ADD
            # A read is left out, so that the model goes on after the yes. It requests the card again.
            script = [calls(*card, LIST), calls(*card), says("All is done.")]
            engine = installation.engine(Adversary(script), faults)
            decision = await attempted(engine, asks("delete both and add", user_id=user))
            if decision is not None and decision.pending_action is not None:
                assert 1 <= len(decision.pending_action.each) <= 3
                await attempted(engine, asks("yes", user_id=user, pending_confirmation=decision.pending_action))
            again = installation.engine(Adversary([says("That is what I know."), says("And more.")]))
            for (decision_id,) in await installation.rows(
                installation.log, "SELECT decision_id FROM decision_logs WHERE status = 'PENDING'"
            ):
                assert await again.finish(decision_id, ask_model=ask_model) is not None
            left = await installation.descriptions(user)
            assert left.count("call mom") <= 1
            if decision is not None and decision.pending_action is not None:
                tasks = {one: "water the plants", two: "buy bread"}
                shown = [asked.arguments for asked in decision.pending_action.each]
                done = [tasks[asked["task_id"]] not in left if "task_id" in asked else "call mom" in left for asked in shown]
                # A call runs only if the one before it on the card is done.
                assert done == sorted(done, reverse=True)
            seen.append(tuple(left))
            if faults.failed is None:
                assert left == ["call mom"]
                break
        await installation.check()
    assert len(set(seen)) > 1
