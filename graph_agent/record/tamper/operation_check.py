"""The comparison of the operations of a closed decision with its record and its settlements.

An entry of the record names each operation that is stored: that of a reservation, which has the amounts too, that of an undo,
which names what it undoes, and that of a change that was sent. A counted read for facts is done, whatever its result was. An
interrupted turn may have stored one more, for a call that it did not send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from graph_agent.models.record import CallDisposition, EntryKind, OperationState
from graph_agent.record.operations import state_of

Json = Mapping[str, Any]


class SettledOutcome(NamedTuple):
    """The outcome of a call that was learned after its decision was closed."""

    success: bool
    error_code: str | None


def expected_operations(record: Json, settled: Mapping[Any, SettledOutcome], stored: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of `call_operations` that a record and its settlements (by call) imply, as far as they do.

    `stored` are the numbers of the calls that have a row.
    """
    named = [entry for entry in record["entries"] if entry.get("operation") is not None]
    reserved = {entry["operation"]: entry["result"] for entry in named if entry["kind"] == EntryKind.RESERVE}
    undone = {entry["operation"]: entry["result"]["undoes"] for entry in named if entry["kind"] == EntryKind.UNDO}
    reads = {entry["operation"]: entry["result"]["tool"] for entry in named if entry["kind"] == EntryKind.READ}
    sent = {one["sequence"]: one for one in record["invocations"] if one["disposition"] == CallDisposition.EXECUTED}
    return [
        {
            **_columns(record, number, sent.get(number), settled.get(number), reads.get(number)),
            # A claim that was stored although its commit failed is not in the record, and its call was not sent.
            **({"undoes": undone.get(number)} if number in sent or number in undone else {}),
            **(_reserved_columns(reserved[number]) if number in reserved else {}),
        }
        for number in dict.fromkeys([*(entry["operation"] for entry in named), *stored])
    ]


def expected_open_state(invocation: tuple[bool, str | None] | None) -> OperationState:
    """Return the state of an operation of an open decision, from the success and error code of the stored call."""
    return OperationState.INTENDED if invocation is None else state_of(*invocation)


def _columns(record: Json, number: Any, sent: Json | None, settled: SettledOutcome | None, read: str | None) -> dict[str, Any]:
    header = record["header"]
    columns = {"decision_id": header["decision_id"], "sequence": number, "user_id": header["context"]["user_id"]}
    if read is not None:
        return {**columns, "tool_name": read, "state": OperationState.DONE}
    if sent is None:
        return {**columns, "state": OperationState.VOID}
    outcome = settled or SettledOutcome(sent["success"], sent["error_code"])
    return {**columns, "tool_name": sent["tool_name"], "state": state_of(*outcome)}


def _reserved_columns(verdict: Json) -> dict[str, Any]:
    now = datetime.fromisoformat(verdict["facts"]["now"])
    return {"tool_name": verdict["tool"], "amounts": verdict["amounts"], "intended_at": now}
