"""The mandates of users, and the draws from them.

A draw is committed together with the operation of its call, under the lock of the mandate's row, which a revocation takes too:
so a call was drawn before the revocation, or it was not drawn. A draw counts unless its call certainly had no effect.

A standing plan permits its lines in each of so many runs of its job. A run is a conversation, and counts from its first draw
that counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, func, insert, literal, select, tuple_, update

from graph_agent.db import UtcDateTime, insert_into
from graph_agent.models.mandate import Draw, Mandate, MandateState, MandateView, Plan, WantedDraw
from graph_agent.models.record import CallOperation, OperationState
from graph_agent.models.stop import Sending, Stop, StopScope
from graph_agent.record.stops import find_stops_since
from graph_agent.record.tables import call_operations, mandate_draws, mandates
from graph_agent.record.tree.leaves import Sealer, columns_of, row_text
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement

_row, _draw, _call = mandates.c, mandate_draws.c, call_operations.c
_UNSEALED: Final = ("mac", "job", "state", "ended_at", "ended_by")
"""The columns that the MAC does not cover. The job stands in the plan, too, and must be that one."""
_OPEN = select(mandates).where(
    _row.user_id == bindparam("user"),
    # One of the conversation, or a standing one of its job.
    ((_row.conversation_id == bindparam("conversation")) & _row.job.is_(None)) | (_row.job == bindparam("job")),
    _row.state == MandateState.OPEN,
    _row.until > bindparam("at"),
)
_LOCKED = select(mandates).where(_row.id == bindparam("mandate")).with_for_update()
_DRAWN = (
    select(_draw.line, _draw.amounts, _draw.run)
    .outerjoin(call_operations, (_call.decision_id == _draw.decision_id) & (_call.sequence == _draw.sequence))
    # A draw whose operation is not known any more counts.
    .where(_draw.mandate_id == bindparam("mandate"), _call.state.is_distinct_from(OperationState.VOID))
)


def mint(connection: Connection, mandate: Mandate, time: ColumnElement[datetime], sealer: Sealer) -> None:
    """Store a mandate, in the transaction that has its yes. A repetition changes nothing.

    `time` is that of the database, as the one of stops: by a clock that is ahead, a stop after the yes would be before it.
    """
    now = connection.execute(select(time)).scalar_one().astimezone(UTC)
    row: dict[str, Any] = {
        "id": mandate.id,
        "user_id": mandate.user_id,
        "conversation_id": mandate.conversation_id,
        "decision_id": mandate.decision_id,
        "plan": mandate.plan.to_json(),
        "asked_under": mandate.asked_under.to_json(),
        "created_at": min(mandate.created_at, now),
        "until": mandate.until,
        "job": mandate.plan.job or None,
        "state": MandateState.OPEN,
    }
    row["mac"] = sealer.macs("mandate", text=_sealed_text(connection, row))[0]
    connection.execute(insert_into(mandates, connection.dialect.name).on_conflict_do_nothing(), row)


def find_open(
    connection: Connection, user_id: str, conversation_id: str, at: datetime, sealer: Sealer, job: str = ""
) -> list[Mandate]:
    """Return the mandates of a user that are in force in a conversation, or in the runs of its job, oldest first.

    One from which the conversation can draw nothing more is left out, so that it hides none of later.
    """
    given = {"user": user_id, "conversation": conversation_id, "at": at, "job": job or None}
    rows = connection.execute(_OPEN.order_by(_row.created_at, _row.id), given)
    found = [_mandate(row) for row in rows if _is_ours(connection, row, sealer) and row.created_at <= at]
    return [one for one in found if _has_room(connection, one, conversation_id)]


def draw(
    connection: Connection, wanted: WantedDraw, operation: CallOperation, decision_id: str, at: datetime, sealer: Sealer
) -> Draw | None:
    """Draw a call from the first line that has room for it; None if none has, or if the mandate is not in force.

    The transaction has the lock of stops, so that none is written meanwhile. One that was made since the yes has revoked it.
    """
    row = connection.execute(_LOCKED, {"mandate": wanted.covered.id}).one_or_none()
    if row is None or row.state != MandateState.OPEN or not row.created_at <= at < row.until:
        return None
    if row.user_id != operation.user_id or not _is_ours(connection, row, sealer):
        return None
    if _revoking_stop(row, find_stops_since(connection, row.created_at)) is not None:
        return None
    plan = _mandate(row).plan
    run, runs, drawn = _drawn_in_run(connection, row.id, plan, wanted.conversation_id)
    if runs > plan.runs:
        return None
    for number in wanted.covered.lines:
        line, earlier = plan.lines[number - 1], [one.amounts for one in drawn if one.line == number]
        amounts = {name: _amount(wanted.arguments.get(name)) for name in line.sum}
        if len(earlier) >= line.times or not all(
            amount + sum(Decimal(one[name]) for one in earlier) <= line.sum[name] for name, amount in amounts.items()
        ):
            continue
        given = {"operation_key": operation.operation_key, "mandate_id": row.id, "line": number, "decision_id": decision_id}
        stored = {name: str(amount) for name, amount in amounts.items()}
        connection.execute(insert(mandate_draws), {**given, "sequence": operation.sequence, "amounts": stored, "run": run})
        return Draw(row.id, number, len(earlier) + 1, line.times, runs if plan.job else None)
    return None


def revoke(
    connection: Connection,
    time: ColumnElement[datetime],
    sealer: Sealer,
    *,
    by: str,
    mandate_id: str | None = None,
    user_id: str | None = None,
) -> int:
    """Revoke the mandates that are open, one, those of a user or all, and state so in the log; return their number.

    `time` is that of the database: it is read under the locks of the rows, so that no call was drawn after it.
    """
    wanted = select(_row.id).where(_row.state == MandateState.OPEN).order_by(_row.id).with_for_update()
    wanted = wanted if mandate_id is None else wanted.where(_row.id == mandate_id)
    wanted = wanted if user_id is None else wanted.where(_row.user_id == user_id)
    ended = connection.execute(wanted).scalars().all()
    if not ended:
        return 0
    at = connection.execute(select(time)).scalar_one().astimezone(UTC)
    values = {"state": MandateState.REVOKED, "ended_at": at, "ended_by": by}
    for revoked in ended:
        connection.execute(update(mandates).where(_row.id == revoked), values)
        # Without the person: a statement is never removed.
        drawn = connection.execute(select(func.count()).where(_draw.mandate_id == revoked)).scalar_one()
        add_statement(connection, Statement(statement=StatementKind.REVOKED, at=at, mandate=revoked, count=drawn), sealer)
    return len(ended)


def void(connection: Connection, at: datetime, mandate_id: str | None = None) -> None:
    """End a mandate that is open, or all of them, because it does not hold under the rules or in the database of now."""
    wanted = update(mandates).where(_row.state == MandateState.OPEN)
    which = wanted if mandate_id is None else wanted.where(_row.id == mandate_id)
    connection.execute(which, {"state": MandateState.VOID, "ended_at": at})


def revoke_own(
    connection: Connection, mandate_id: str, user_id: str, at: datetime, time: ColumnElement[datetime], sealer: Sealer
) -> MandateView | None:
    """Revoke a mandate of a user, and return it; None if the user has none with this id. One that has ended stays as it is."""
    found = find_mandate(connection, mandate_id, at)
    if found is None or found.mandate.user_id != user_id:
        return None
    # Also one that is used up: a call that fails for certain would free its draw.
    if found.state not in (MandateState.OPEN, MandateState.USED):
        return found
    revoke(connection, time, sealer, by=user_id, mandate_id=mandate_id)
    return find_mandate(connection, mandate_id, at)


def list_mandates(
    connection: Connection,
    at: datetime,
    *,
    user_id: str | None = None,
    conversation_id: str | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int = 100,
) -> list[MandateView]:
    """Return the newest mandates, of one user or of all, newest first.

    `after` is the time and the id of the last one that is known already: the list goes on behind it.
    """
    wanted = select(mandates).order_by(_row.created_at.desc(), _row.id.desc()).limit(limit)
    if user_id is not None:
        wanted = wanted.where(_row.user_id == user_id)
    if conversation_id is not None:
        wanted = wanted.where(_row.conversation_id == conversation_id)
    if after is not None:
        wanted = wanted.where(tuple_(_row.created_at, _row.id) < tuple_(literal(after[0], UtcDateTime()), literal(after[1])))
    if not (rows := connection.execute(wanted).all()):
        return []
    stops = find_stops_since(connection, min(row.created_at for row in rows))
    return [_view(connection, row, stops, at) for row in rows]


def find_mandate(connection: Connection, mandate_id: str, at: datetime) -> MandateView | None:
    """Return a mandate by its id."""
    row = connection.execute(select(mandates).where(_row.id == mandate_id)).one_or_none()
    return None if row is None else _view(connection, row, find_stops_since(connection, row.created_at), at)


def plans_of_all(connection: Connection, sealer: Sealer) -> dict[str, tuple[MandateState, Plan] | None]:
    """Return the state and the plan of each mandate by its id; None for one without a valid MAC, which covers no call."""
    rows = connection.execute(select(mandates)).all()
    return {
        row.id: (MandateState(row.state), _mandate(row).plan) if _is_ours(connection, row, sealer) else None for row in rows
    }


def forget_mandates(connection: Connection, user_id: str) -> None:
    """Erase the mandates of a user, with their draws."""
    own = select(_row.id).where(_row.user_id == user_id)
    connection.execute(delete(mandate_draws).where(_draw.mandate_id.in_(own)))
    connection.execute(delete(mandates).where(_row.user_id == user_id))


def prune_mandates(connection: Connection, before: datetime) -> None:
    """Delete the mandates whose time ended before this one, with their draws."""
    old = select(_row.id).where(_row.until < before)
    connection.execute(delete(mandate_draws).where(_draw.mandate_id.in_(old)))
    connection.execute(delete(mandates).where(_row.until < before))


def _has_room(connection: Connection, mandate: Mandate, conversation_id: str) -> bool:
    """True if a conversation has a draw left of some line of a mandate, whatever its sums leave."""
    plan = mandate.plan
    _, runs, drawn = _drawn_in_run(connection, mandate.id, plan, conversation_id)
    calls = Counter(one.line for one in drawn)
    return runs <= plan.runs and any(calls[number] < line.times for number, line in enumerate(plan.lines, 1))


def _drawn_in_run(
    connection: Connection, mandate_id: str, plan: Plan, conversation_id: str
) -> tuple[str | None, int, list[Row[Any, Any, Any]]]:
    """Return the run that a conversation is, the number of runs that have drawn, with it, and the draws in it.

    A plan of one conversation has one run, without a name.
    """
    run = conversation_id if plan.job else None
    drawn = connection.execute(_DRAWN, {"mandate": mandate_id}).all()
    return run, len({run, *(one.run for one in drawn)}), [one for one in drawn if one.run == run]


def _view(connection: Connection, row: Row[Any], stops: Iterable[Stop], at: datetime) -> MandateView:
    mandate, drawn = _mandate(row), connection.execute(_DRAWN, {"mandate": row.id}).all()
    counts = tuple(sum(one.line == number for one in drawn) for number in range(1, len(mandate.lines) + 1))
    # No line of no run has more than its times, so that only a plan that is drawn whole reaches all of them.
    used = all(count >= mandate.plan.runs * line.times for count, line in zip(counts, mandate.lines, strict=True))
    runs = len({one.run for one in drawn}) if mandate.plan.job else 0
    return MandateView(mandate=mandate, drawn=counts, runs=runs, **_end(row, _revoking_stop(row, stops), at, used=used))


def _end(row: Row[Any], stop: Stop | None, at: datetime, *, used: bool) -> dict[str, Any]:
    """Return the state of a mandate, and when and by whom it was ended."""
    if row.state != MandateState.OPEN:
        return {"state": MandateState(row.state), "ended_at": row.ended_at, "ended_by": row.ended_by or ""}
    in_time = row.created_at <= at < row.until
    if stop is not None and stop.at is not None and not used and (in_time or stop.at < row.until):
        return {"state": MandateState.REVOKED, "ended_at": stop.at, "ended_by": f"stop {stop.number}"}
    if not in_time:
        return {"state": MandateState.EXPIRED}
    return {"state": MandateState.USED if used else MandateState.OPEN}


def _revoking_stop(row: Row[Any], stops: Iterable[Stop]) -> Stop | None:
    """Return the first stop that has revoked a mandate: one made since the yes, of its user, a tool of it, or of everything.

    A stop of a server revokes every mandate, because a plan does not say which servers its tools are on.
    """
    tools = [line["tool"] for line in row.plan["lines"]]
    for stop in stops:
        if stop.at is None or stop.at < row.created_at:
            continue
        if stop.scope is StopScope.SERVER or any(stop.covers(Sending(row.user_id, tool, changes=True)) for tool in tools):
            return stop
    return None


def _mandate(row: Row[Any]) -> Mandate:
    return Mandate.model_validate({name: getattr(row, name) for name in Mandate.model_fields})


def _is_ours(connection: Connection, row: Row[Any], sealer: Sealer) -> bool:
    is_of_job = (row.job or "") == row.plan.get("job", "")
    return is_of_job and row.mac in sealer.macs("mandate", text=_sealed_text(connection, row._mapping))


def _sealed_text(connection: Connection, row: Mapping[Any, Any]) -> str:
    """Return what the MAC of a mandate covers: everything but its state."""
    stored = {name: encode(row.get(name)) for name, _, encode in columns_of(connection.dialect, mandates)}
    return row_text(mandates, stored, without=_UNSEALED)


def _amount(value: Any) -> Decimal:
    """Return what a call takes of a sum: a number, or all numbers of a list and of the lists in it."""
    if isinstance(value, list):
        return sum(map(_amount, value), Decimal(0))
    return Decimal(0) if value is None else Decimal(str(value))
