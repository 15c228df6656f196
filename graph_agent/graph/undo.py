"""The reads around a change that can be undone, and the check before an undo that nobody has changed the object since."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from graph_agent.graph.authorized import read_restored
from graph_agent.graph.batch import Batch, past_calls
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.models.facts import FactRead
from graph_agent.models.record import CallDisposition
from graph_agent.models.undo import RestoredObject, UndoneCall
from graph_agent.policy.guard import JudgedCall
from graph_agent.policy.undo import kept_of, read_arguments
from graph_agent.reply import fixed


async def read_around(
    turn: Turn, runtime: TurnRuntime, batch: Batch, judged: JudgedCall, position: int, *, after: bool
) -> None:
    """Read what an undo of this call would restore, if its line says so: before the call, and after it.

    A read that fails prevents the undo, and not the call. An undo is not undone.
    """
    declared = runtime.snapshot.policy.rules[judged.tool_name].grant.undone_by
    given = None if declared is None else read_arguments(declared, judged.arguments)
    if declared is None or declared.before is None or given is None or turn.undone_by_call(position) is not None:
        return
    await _read(turn, runtime, batch, position, judged.sequence, declared.before.tool, given, declared.restored, after=after)


async def changed_since(turn: Turn, runtime: TurnRuntime, batch: Batch, judged: JudgedCall, position: int) -> str | None:
    """Return why a call does not undo what it is to undo, as a clause; None if its object is as the change has left it.

    While the user is asked, the object is expected as the undos before it in the batch leave it.
    """
    undone = turn.undone_by_call(position)
    if undone is None or (restored := undone.restored) is None:
        return None
    paths = tuple(restored.left)
    read = await _read(turn, runtime, batch, position, judged.sequence, restored.tool, restored.arguments, paths, after=False)
    if runtime.ports.interrupted:
        return None
    if read.error is not None:
        return fixed.not_compared(read.error)
    now = {**read.values, **_restored_before(turn, restored, position)}
    for path, left in restored.left.items():
        if now.get(path) != left:
            about = " ".join([restored.tool, *map(str, restored.arguments.values())])
            rule = runtime.snapshot.policy.rules[restored.tool]
            return fixed.changed_since(rule.user_text(about), path, now.get(path), left)
    return None


def _restored_before(turn: Turn, restored: RestoredObject, position: int) -> dict[str, Any]:
    """Return what the undos of the same object that are asked about before this one restore, by path."""
    undoes = turn.context.undoes
    if undoes is None:
        return {}
    found: dict[str, Any] = {}
    for number, one in enumerate(undoes.calls[:position]):
        is_asked = turn.calls[number].disposition is CallDisposition.AWAITING
        if is_asked and one.restored is not None and _is_same_object(one, restored):
            found.update(one.restored.before)
    return found


def _is_same_object(one: UndoneCall, other: RestoredObject) -> bool:
    restored = one.restored
    return restored is not None and (restored.tool, restored.arguments) == (other.tool, other.arguments)


async def _read(
    turn: Turn,
    runtime: TurnRuntime,
    batch: Batch,
    position: int,
    sequence: int,
    tool_name: str,
    arguments: dict[str, Any],
    paths: Iterable[str],
    *,
    after: bool,
) -> FactRead:
    # Imported here, because its package belongs to an extra. A policy with such a marker needs it.
    from graph_agent.policy.cedar.fact_values import UnreadableError

    try:
        call = await batch.reader.permitted(tool_name, arguments, past_calls(turn), batch.sources_of(position))
    except UnreadableError as exc:
        return FactRead(tool=tool_name, arguments=arguments, error=str(exc))
    kept = partial(kept_of, tuple(paths), tool_name, call.arguments)
    return await read_restored(call, runtime.ports, lambda result: kept(result).replace(restores=sequence, is_after=after))
