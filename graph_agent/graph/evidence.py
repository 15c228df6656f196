"""The evidence that gates need, read through the recorded ports: one reader for each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from graph_agent.graph.batch import Batch, read_calls
from graph_agent.graph.card import AskedCall, is_too_long_together
from graph_agent.graph.undo import read_object, restored_before
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import WantedDraw
from graph_agent.policy.call_in_hand import CallInHand, Evidence, EvidenceKind, Gate, GuardVerdict
from graph_agent.policy.gates import is_previewed
from graph_agent.policy.guard import walk
from graph_agent.words.confirmation import digest_of_call
from graph_agent.words.said import Known

Reader = Callable[[CallInHand, Batch], Awaitable[Evidence]]


async def judge_now(hand: CallInHand, batch: Batch, table: Sequence[Gate] = ()) -> GuardVerdict | None:
    """Let a call pass the gates, and read the evidence that they need; None if the turn is interrupted meanwhile."""
    walking, ports = walk(hand, table), batch.runtime.ports
    try:
        kind = next(walking)
        while not ports.interrupted:
            evidence = await READERS[kind](hand, batch)
            if ports.interrupted:
                break
            kind = walking.send(evidence)
    except StopIteration as end:
        judged: GuardVerdict = end.value
        return judged
    return None


async def _read_facts(hand: CallInHand, batch: Batch) -> Evidence:
    results = await batch.reader.of_call(hand, batch.newest)
    return hand.evidence._replace(results=results, facts_shown=batch.reader.shown(hand.name, results))


async def _read_mandate(hand: CallInHand, batch: Batch) -> Evidence:
    """The results of calls that were made since the yes are those of this turn, and of the turns before it."""
    bound = hand.rule.grant.bound_argument
    chosen = {name: value for name, value in hand.arguments.items() if name != bound}
    call, exact = FunctionCall(name=hand.name, arguments=chosen), hand.rule.grant.requires_confirmation
    covered = await batch.runtime.ports.covered(call, hand.sources, read_calls(batch.turn, batch.setting.policy), exact=exact)
    return hand.evidence._replace(covered=covered)


async def _read_object(hand: CallInHand, batch: Batch) -> Evidence:
    """The preview is taken now, after the calls before this one, and a question says what they have changed."""
    seen = hand.evidence.seen
    if seen is None and is_previewed(hand):
        seen = await batch.runtime.ports.preview(hand.name, hand.arguments)
    read = await batch.reader.for_sentence(hand) if hand.undoes is None else hand.evidence.read_for_sentence
    known = Known(seen, hand.evidence.facts_shown, read, hand.undoes)
    return hand.evidence._replace(seen=seen, read_for_sentence=read, object_changed=_is_changed(hand, known))


def _is_changed(hand: CallInHand, known: Known) -> bool:
    shown = hand.shown_before
    return shown is not None and digest_of_call(hand.rule, hand.arguments, known) != shown.whole_digest


async def _read_sentence(hand: CallInHand, batch: Batch) -> Evidence:
    return hand.evidence._replace(read_for_sentence=await batch.reader.for_sentence(hand))


async def _read_restored(hand: CallInHand, batch: Batch) -> Evidence:
    if hand.undoes is None or (restored := hand.undoes.restored) is None:
        return hand.evidence
    read = await read_object(hand, batch, restored.tool, restored.arguments)
    return hand.evidence._replace(object_now=read, restored_before=restored_before(batch.turn, restored, hand.place))


async def _reserve(hand: CallInHand, batch: Batch) -> Evidence:
    policy, permission = batch.setting.policy, hand.found.permission
    conditions = policy.conditions if policy.counts(hand.name) else None
    assert permission is not None
    if (covered := hand.evidence.covered) is not None:
        wanted, ruling = WantedDraw(covered, hand.arguments, batch.turn.context.conversation_id), hand.found.ruling
        drawn = await batch.runtime.ports.draw(permission, wanted, ruling, conditions, hand.situation)
        return hand.evidence if drawn is None else hand.evidence._replace(uses=drawn.ruling, draw=drawn.draw)
    assert conditions is not None
    confirmed = batch.setting.confirmed is not None and batch.turn.has_yes
    uses = await batch.runtime.ports.reserve(permission, conditions, hand.situation, confirmed=confirmed)
    return hand.evidence._replace(uses=uses)


async def _claim(hand: CallInHand, batch: Batch) -> Evidence:
    assert hand.found.permission is not None
    assert hand.undoes is not None
    return hand.evidence._replace(undone_by=await batch.runtime.ports.claim_undo(hand.found.permission, hand.undoes))


async def _measure_room(hand: CallInHand, batch: Batch) -> Evidence:
    alone = [AskedCall.of(hand.rule, hand.arguments)]
    return hand.evidence._replace(has_room=not is_too_long_together(batch.turn, batch.setting.policy, alone))


async def _measure_card(hand: CallInHand, batch: Batch) -> Evidence:
    if not batch.asked:
        return hand.evidence
    together = [*batch.asked, AskedCall.in_hand(hand)]
    return hand.evidence._replace(fits_card=not is_too_long_together(batch.turn, batch.setting.policy, together))


async def _read_requests(hand: CallInHand, batch: Batch) -> Evidence:
    call = FunctionCall(name=hand.name, arguments=hand.arguments)
    return hand.evidence._replace(requests=await batch.runtime.ports.known_requests(call))


READERS: Final[Mapping[EvidenceKind, Reader]] = MappingProxyType(
    {
        EvidenceKind.FACTS: _read_facts,
        EvidenceKind.MANDATE: _read_mandate,
        EvidenceKind.OBJECT: _read_object,
        EvidenceKind.SENTENCE: _read_sentence,
        EvidenceKind.RESTORED: _read_restored,
        EvidenceKind.USES: _reserve,
        EvidenceKind.CLAIM: _claim,
        EvidenceKind.ROOM: _measure_room,
        EvidenceKind.CARD: _measure_card,
        EvidenceKind.REQUESTS: _read_requests,
    }
)
