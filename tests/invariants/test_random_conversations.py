"""Promises that hold in every conversation, whatever the rules, the model, the failures and the answers of the user are."""

from __future__ import annotations

import random

from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import CallDisposition, RecordStatus, ToolInvocation
from graph_agent.policy import guard
from graph_agent.policy.call_in_hand import Setting
from graph_agent.testing import OrderDesk, says
from graph_agent.turn.finished import FinishedTurn
from graph_agent.words.reasons import for_model
from tests import desk
from tests.examples import examples
from tests.invariants.random_conversations import SEEDS, WRITES, Played, digest_of, play, random_batch, stored_digests
from tests.scripted_turns import calls

_GATES = {gate.name for gate in guard.GATES}


async def test_in_every_conversation_the_gates_keep_their_promises_and_the_end_is_as_stored() -> None:
    stored, changed = stored_digests(), []
    for seed in range(examples(SEEDS)):
        played = await play(seed)
        for turn in played.turns:
            _check_turn(turn, played)
        _check_conversation(played)
        if digest_of(played) != stored[seed]:
            changed.append(seed)
    command = "python -m tests.invariants.random_conversations"
    assert not changed, (
        f"compare what `{command} {changed[0]}` prints before and after; if it is meant, run `{command} --renew`"
    )


def _check_turn(turn: FinishedTurn, played: Played) -> None:
    context, earlier = turn.record.header.context, list[ToolInvocation]()
    confirmed = [] if context.pending_confirmation is None else context.pending_confirmation.each
    agreed = {_call(one.tool_name, one.arguments) for one in confirmed}
    assert turn.record.status is RecordStatus.COMPLETED
    for one in turn.record.invocations:
        executed = one.disposition is CallDisposition.EXECUTED
        assert executed == (one.gate is None)
        assert executed or one.gate in _GATES
        if executed:
            _check_executed(one, [known for known in earlier if known.disposition is CallDisposition.EXECUTED], played)
            assert not any(known.disposition is CallDisposition.AWAITING for known in earlier)
            if one.tool_name in WRITES:
                asks = one.tool_name in played.asks or (one.tool_name == "cancel_order" and "confirmed" in played.rules)
                assert not asks or _call(one.tool_name, one.parameters) in agreed
                assert not context.dry_run
        earlier.append(one)


def _check_executed(one: ToolInvocation, sent: list[ToolInvocation], played: Played) -> None:
    """Check a call that was sent, after the calls of the message that were `sent` before it."""
    running, rules = [known for known in sent if known.tool_result.may_be_done], played.rules
    same_tool = sum(known.tool_name == one.tool_name for known in running)
    assert same_tool < played.limits.get(one.tool_name, 99)
    assert "calls" not in rules or same_tool < 2
    if one.tool_name not in WRITES:
        return
    assert _call(one.tool_name, one.parameters) not in {_call(known.tool_name, known.parameters) for known in running}
    assert "writes" not in rules or sum(known.tool_name in WRITES for known in running) < 2


def _check_conversation(played: Played) -> None:
    made = [one for turn in played.turns for one in turn.record.invocations if one.disposition is CallDisposition.EXECUTED]
    assert [one for one in played.desk.sent if one[0] in WRITES] == [
        (one.tool_name, one.parameters) for one in made if one.tool_name in WRITES
    ]
    assert "only a pending order" not in played.rules or set(played.cancelled) <= {"pending"}
    uses = sum(one.tool_name == "exchange" and one.tool_result.may_be_done for one in made)
    assert "day" not in played.rules or uses <= 2
    tools = [one.tool_name for one in made]
    looked = [one.tool_name for one in made if one.success or one.tool_name != "get_order"]
    assert "looked" not in played.rules or "return_items" not in looked or "get_order" in looked[: looked.index("return_items")]
    if "no exchange before" in played.rules and "exchange" in tools:
        assert "cancel_order" not in tools[tools.index("exchange") :]


def _call(tool_name: str, arguments: object) -> str:
    return canonical_json([tool_name, arguments])


async def test_a_batch_whose_calls_all_succeed_gets_the_verdicts_that_a_proof_foresees() -> None:
    for seed in range(examples(400)):
        rng = random.Random(seed)
        batch = random_batch(rng)
        constitution = desk.CONSTITUTION.replace(
            "Return items (without", f"Return items ({rng.choice(['requires', 'without'])}"
        )
        constitution = constitution.replace("Exchange items (without", "Exchange items (at most 1 per message) (without")
        requested = [(call.name, call.arguments) for call in batch]
        orders = OrderDesk()
        orders.orders["W9"] = {"id": "W9", "status": "pending"}
        run = desk.conversation(None, calls(*requested), says("Done."), desk=orders, constitution=constitution)
        turn = await run.say()
        policy = (await run.engine.prepare()).policy
        judged = guard.judge_batch(batch, Setting(policy=policy, user_id="ann", decision_id="d", max_calls_per_turn=10))
        foreseen = [(one.gate or None, for_model(one.reason) or None) for one in judged]
        assert [(one.gate, one.error_message) for one in turn.record.invocations] == foreseen, seed
