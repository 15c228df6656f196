"""The results that earlier turns of a conversation have read."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, not_, select

from graph_agent.models.mandate import Mandate
from graph_agent.models.record import EntryKind
from graph_agent.models.sources import CallsAround, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.record.audit_writer import read_calls
from graph_agent.record.tables import CLOSED, decision_logs

MAX_TURNS: Final = 50
"""The number of turns whose results are looked into, the newest; those of older ones are known by the names of their tools."""
MAX_CHARACTERS: Final = 500_000
"""The size of their records: a turn prepares the texts anew, which takes 0.1 ms of CPU for 1,000 characters."""

_SHOWN: Final = tuple(f'"kind":"{kind}"' for kind in (EntryKind.READ, EntryKind.PREVIEW))
"""The marks in a record of what a question or a reply may have shown."""
_NOT_SEARCHED: Final = ToolResult(success=True)
_log = decision_logs.c
_RECORDS = (
    select(_log.record)
    .where(_log.conversation_id == bindparam("conversation"), _log.user_id == bindparam("user"))
    .where(_log.decision_id != bindparam("without"), CLOSED)
    .order_by(_log.created_at.desc())
    .limit(MAX_TURNS)
)


_BEGAN = select(_log.created_at).where(_log.decision_id == bindparam("decision"))
_OLDER = select(_log.decision_id).where(
    _log.conversation_id == bindparam("conversation"), _log.user_id == bindparam("user"), _log.created_at <= bindparam("time")
)


def find_around(connection: Connection, user_id: str, conversation_id: str, without: str, mandate: Mandate) -> CallsAround:
    """Return what a conversation's closed turns have read before and since the yes to a plan, without one decision."""
    decision_id = mandate.decision_id
    began = connection.execute(_BEGAN, {"decision": decision_id}).scalar_one_or_none()
    if mandate.plan.job:
        # Its yes was given in another conversation, whose record may be removed while the plan stands.
        began = mandate.created_at
    if began is None:
        return CallsAround((), (), is_whole=False)
    # Turns that began at the same time came before: what is not certainly new is known.
    is_older = (_log.created_at <= began) & (_log.decision_id != decision_id)
    before, _ = _find(connection, _RECORDS.where(is_older), user_id, conversation_id, without)
    since, _ = _find(connection, _RECORDS.where(not_(is_older)), user_id, conversation_id, without)
    given = {"user": user_id, "conversation": conversation_id, "time": began}
    older = connection.execute(_OLDER.limit(MAX_TURNS + 2), given).all()
    return CallsAround(before, since, len(older) <= MAX_TURNS and not any(one.result is _NOT_SEARCHED for one in before))


def find_results(
    connection: Connection, user_id: str, conversation_id: str, without: str, before: datetime | None = None
) -> tuple[list[ReadCall], list[str]]:
    """Return what a conversation's closed turns have read, oldest first, and the digests of the definitions of their tools.

    Without the decision `without`. With a time only those of turns that began before.
    """
    wanted = _RECORDS if before is None else _RECORDS.where(_log.created_at < before)
    return _find(connection, wanted, user_id, conversation_id, without)


def _find(
    connection: Connection, wanted: Select[Any], user_id: str, conversation_id: str, without: str
) -> tuple[list[ReadCall], list[str]]:
    given = {"user": user_id, "conversation": conversation_id, "without": without}
    texts = connection.execute(wanted, given).scalars().all()
    found: list[ReadCall] = []
    definitions: set[str] = set()
    for number, (text, size) in enumerate(zip(texts, accumulate(map(len, texts)), strict=True)):
        whole = size <= MAX_CHARACTERS or number == 0
        # The tools of calls are known by their names; what was only shown is known from the record alone.
        if whole or any(mark in text for mark in _SHOWN):
            record = json.loads(text)
            definitions.add(record["header"]["tools"])
            read = read_calls(record)
            found = [*(read if whole else [ReadCall(one.tool_name, {}, _NOT_SEARCHED) for one in read]), *found]
    return found, sorted(definitions)
