"""One approval, one effect: whatever the model requests, in any order and again, before and after the yes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import AfterYes, DecisionType
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.testing import OrderDesk, says
from tests.desk import CARDS, cancel, card_desk, card_talk, get, note_on, refund
from tests.scripted_turns import calls, failed

ORDERS = st.sampled_from(["1", "2", "3"])
CALLS = st.one_of(*(st.builds(make, ORDERS) for make in (cancel, refund, note_on, get)))
BATCHES = st.lists(st.lists(CALLS, min_size=1, max_size=5).map(lambda batch: calls(*batch)), min_size=1, max_size=14)
OUTCOMES = st.dictionaries(
    ORDERS,
    st.sampled_from([failed(ToolErrorCode.TOOL_EXECUTION_ERROR), failed(ToolErrorCode.TIMEOUT_ERROR, "no answer")]),
    max_size=2,
)
ANSWERS = st.lists(st.sampled_from(["yes", "yes", "no", "cancel something else"]), min_size=1, max_size=6)
CONFIRMED = {line.split(":")[0].removeprefix("- ") for line in CARDS.splitlines() if "requires confirmation" in line}


def _change_states(desk: OrderDesk) -> None:
    """Let the state of an order change before every third call."""

    def change(_: str) -> None:
        if len(desk.sent) % 3 == 2:
            desk.orders["2"]["status"] = f"changed {len(desk.sent)} times"

    desk.before = change


def _call(tool_name: str, arguments: Any) -> str:
    return canonical_json([tool_name, arguments])


@settings(max_examples=60, deadline=None)
@given(BATCHES, OUTCOMES, ANSWERS, st.sampled_from(AfterYes), st.booleans())
def test_each_yes_is_for_one_effect_of_each_call_that_it_was_shown_for(
    batches: list[Any], outcomes: dict[str, ToolResult], answers: list[str], after_yes: AfterYes, changing: bool
) -> None:
    async def play() -> None:
        desk = card_desk(outcomes, ledger=False)
        if changing:
            _change_states(desk)
        talk = card_talk(*batches, *[says("Done.")] * 30, after_yes=after_yes, desk=desk)
        finished = await talk.say("go")
        permitted: Counter[str] = Counter()
        for answer in answers:
            pending, before = finished.decision.pending_action, len(desk.sent)
            finished = await talk.say(answer)
            sent = [(*call, key) for call, key in zip(desk.sent, desk.keys, strict=True)][before:]
            confirmed = pending is not None and finished.turn is not None and finished.turn.confirmed is not None
            shown = {pending.operation_key(n): one for n, one in enumerate(pending.each, 1)} if pending and confirmed else {}
            permitted.update(_call(one.tool_name, one.arguments) for one in shown.values())
            keys = [key for *_, key in sent if key in shown]
            assert keys == list(shown)[: len(keys)], "the calls of a card run in their order, without gaps"
            for tool_name, arguments, key in sent:
                if key in shown:
                    assert (shown[key].tool_name, shown[key].arguments) == (tool_name, arguments)
                else:
                    assert tool_name not in CONFIRMED, "it was not confirmed"
            done_before = () if not confirmed or pending is None else pending.done_before
            earlier = {_call(one.tool_name, one.arguments) for one in done_before}
            assert earlier.isdisjoint(_call(tool, arguments) for tool, arguments, key in sent if key not in shown and key)
            assert (finished.decision.decision_type is DecisionType.CANCEL_PENDING) <= (not sent)
        effects = Counter(_call(tool, arguments) for tool, arguments in desk.sent if tool in CONFIRMED)
        assert effects <= permitted
        assert max(Counter(key for key in desk.keys if key is not None).values(), default=1) == 1
        for turn in talk.turns:
            ran = [one for one in turn.record.invocations if one.disposition is CallDisposition.EXECUTED and one.success]
            writes = Counter(_call(one.tool_name, one.parameters) for one in ran if one.tool_name != "get_order")
            assert max(writes.values(), default=1) == 1, "no turn makes the same change twice"

    asyncio.run(play())
