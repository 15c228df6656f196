"""Planted mistakes: changes of the transitions of approval requests, made while they are imported, that the race must find.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_APPROVALS = "graph_agent.chat.conversations.approvals"
_ENDED = """        if stored.state is not ApprovalState.OPEN or (answer.approve and not stored.in_time):
            raise closed_error(stored)
        answer = """
_CLAIMED = """        stored = self._one(connection, request_id, lock=True)
        if stored is None or stored.closing_decision is not None:
"""

WITHOUT_KEY = "a double click is not looked for, and the answers have no key"
"""The table of the answers loses its key, too."""

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "the claim does not lock the request": [Edit(_APPROVALS, _CLAIMED, _CLAIMED.replace(", lock=True", ""))],
    "the claim does not look at the closing decision": [
        Edit(_APPROVALS, _CLAIMED, _CLAIMED.replace(" or stored.closing_decision is not None", ""))
    ],
    "a denial does not look at the state": [
        Edit(
            _APPROVALS, _ENDED, _ENDED.replace("if stored", "if answer.approve and (stored").replace("in_time):", "in_time)):")
        ),
        Edit(_APPROVALS, "where(approvals.c.id == stored.request.id, _OPEN)", "where(approvals.c.id == stored.request.id)"),
    ],
    "a late request is claimed": [Edit(_APPROVALS, "if not stored.in_time or not may_run(stored)", "if not may_run(stored)")],
    "the requester may answer": [Edit(_APPROVALS, "if stored.request.user_id == answer.approver:", "if False:")],
    WITHOUT_KEY: [
        Edit(_APPROVALS, "if one.approver == answer.approver), None)", "if False), None)"),
        Edit(_APPROVALS, "        connection.execute(mine)\n", ""),
    ],
}

NEEDS_READ_COMMITTED = ("the claim does not lock the request",)
"""SQLite has one writer at a time, so that a missing lock of a row changes nothing there."""
