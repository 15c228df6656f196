"""The reads around a change that can be undone, and before an undo."""

from __future__ import annotations

from typing import Any

from graph_agent.graph.batch import Batch
from graph_agent.graph.state import Turn
from graph_agent.models.facts import FactRead
from graph_agent.models.record import CallDisposition
from graph_agent.models.undo import RestoredObject, UndoneCall
from graph_agent.policy.call_in_hand import CallInHand
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.undo import read_arguments


async def read_around(hand: CallInHand, batch: Batch, *, after: bool) -> None:
    """Read what an undo of this call would restore, if its line says so: before the call, and after it.

    What its conditions have read is not read again. A read that fails prevents the undo, and not the call. An undo is not
    undone.
    """
    declared = hand.rule.grant.undone_by
    given = None if declared is None else read_arguments(declared, hand.arguments)
    if declared is None or declared.before is None or given is None or hand.undoes is not None:
        return
    await read_object(hand, batch, declared.before.tool, given, after=hand.sequence if after else None)


def restored_before(turn: Turn, restored: RestoredObject, place: int) -> dict[str, Any]:
    """Return what the undos of the same object that are asked about before this one restore, by path."""
    undoes = turn.context.undoes
    if undoes is None:
        return {}
    found: dict[str, Any] = {}
    for number, one in enumerate(undoes.calls[:place]):
        is_asked = turn.calls[number].disposition is CallDisposition.AWAITING
        if is_asked and one.restored is not None and _is_same_object(one, restored):
            found.update(one.restored.before)
    return found


def _is_same_object(one: UndoneCall, other: RestoredObject) -> bool:
    restored = one.restored
    return restored is not None and (restored.tool, restored.arguments) == (other.tool, other.arguments)


async def read_object(
    hand: CallInHand, batch: Batch, tool_name: str, arguments: dict[str, Any], *, after: int | None = None
) -> FactRead:
    """Return what an undo restores of the object of a call. It is not recorded if the read is not permitted."""
    try:
        return await batch.reader.answer(tool_name, arguments, hand, after=after, decides=False)
    except UnreadableError as exc:
        return FactRead(tool=tool_name, arguments=arguments, error=str(exc))
