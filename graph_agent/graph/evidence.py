"""What the gates have to be told, read through the ports: one reader for each kind of evidence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from graph_agent.graph.batch import Batch
from graph_agent.graph.card import AskedCall, is_too_long_together
from graph_agent.graph.undo import read_object, restored_before
from graph_agent.policy.call_in_hand import CallInHand, GuardVerdict
from graph_agent.policy.gates import Evidence, is_previewed
from graph_agent.policy.guard import walk
from graph_agent.policy.shadow import shadow_verdicts

Reader = Callable[[CallInHand, Batch], Awaitable[None]]


async def judge_now(hand: CallInHand, batch: Batch) -> GuardVerdict | None:
    """Let a call pass the gates, and read what they have to be told; None if the turn is interrupted meanwhile."""
    walking, ports = walk(hand), batch.runtime.ports
    try:
        asked_for = next(walking)
        while not ports.interrupted:
            await READERS[asked_for](hand, batch)
            if ports.interrupted:
                break
            asked_for = walking.send(True)
    except StopIteration as end:
        judged: GuardVerdict = end.value
        return judged
    return None


async def read_facts(hand: CallInHand, batch: Batch) -> None:
    hand.results = await batch.reader.of_call(hand, batch.newest)
    hand.facts_shown = batch.reader.shown(hand.name, hand.results)


async def read_shown_object(hand: CallInHand, batch: Batch) -> None:
    """The preview is taken now, after the calls before this one, and a question says what they have changed."""
    if is_previewed(hand) and hand.seen is None:
        hand.seen = await batch.runtime.ports.preview(hand.name, hand.arguments)


async def _read_shadow(hand: CallInHand, batch: Batch) -> None:
    del batch
    hand.shadow = shadow_verdicts(hand)


async def _read_restored(hand: CallInHand, batch: Batch) -> None:
    if hand.undoes is not None and (restored := hand.undoes.restored) is not None:
        paths = tuple(restored.left)
        hand.object_now = await read_object(hand, batch, restored.tool, restored.arguments, paths, after=False)
        hand.restored_before = restored_before(batch.turn, restored, hand.place)


async def _reserve(hand: CallInHand, batch: Batch) -> None:
    conditions, turn = batch.setting.policy.conditions, batch.turn
    assert conditions is not None
    assert hand.permission is not None
    confirmed = batch.setting.confirmed is not None and turn.has_yes
    hand.reserved = await batch.runtime.ports.reserve(hand.permission, conditions, hand.situation, confirmed=confirmed)


async def _claim(hand: CallInHand, batch: Batch) -> None:
    assert hand.permission is not None
    assert hand.undoes is not None
    hand.undone_by = await batch.runtime.ports.claim_undo(hand.permission, hand.undoes)


async def _measure(hand: CallInHand, batch: Batch) -> None:
    alone = [AskedCall.of(hand.rule, hand.arguments, None)]
    hand.has_room = not is_too_long_together(batch.turn, batch.setting.policy, alone)


READERS: Final[Mapping[Evidence, Reader]] = MappingProxyType(
    {
        Evidence.FACTS: read_facts,
        Evidence.SHADOW: _read_shadow,
        Evidence.OBJECT: read_shown_object,
        Evidence.RESTORED: _read_restored,
        Evidence.USES: _reserve,
        Evidence.CLAIM: _claim,
        Evidence.ROOM: _measure,
    }
)
