"""Planted mistakes: changes of the transitions of approval requests, made while they are imported, that the race must find.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_APPROVALS = "graph_agent.chat.conversations.approvals"
_ENDED = "        if has_ended or (answer.approve and not stored.in_time):\n"
_CLAIMED = """        stored = self._one(connection, request_id, lock=True)
        if stored is None or stored.closing_decision is not None or stored.state is ApprovalState.APPROVED:
"""

WITHOUT_KEY = "a double click is not looked for, and the answers have no key"
"""The table of the answers loses its key, too."""

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "the claim does not lock the request": [Edit(_APPROVALS, _CLAIMED, _CLAIMED.replace(", lock=True", ""))],
    "the claim does not look at the closing decision": [
        Edit(
            _APPROVALS,
            _CLAIMED,
            _CLAIMED.replace(" or stored.closing_decision is not None or stored.state is ApprovalState.APPROVED", ""),
        )
    ],
    "a denial does not look at the state": [
        Edit(_APPROVALS, _ENDED, "        if answer.approve and (has_ended or not stored.in_time):\n"),
        Edit(_APPROVALS, "where(approvals.c.id == stored.request.id, _OPEN)", "where(approvals.c.id == stored.request.id)"),
    ],
    "an approval does not look at the state": [Edit(_APPROVALS, _ENDED, "        if answer.approve and not stored.in_time:\n")],
    "a late approval is stored": [Edit(_APPROVALS, _ENDED, "        if has_ended:\n")],
    "a late request is claimed": [Edit(_APPROVALS, "if not stored.in_time or not may_run(stored)", "if not may_run(stored)")],
    "the requester may answer": [Edit(_APPROVALS, "if is_same_person(stored.request.user_id, answer.approver):", "if False:")],
    WITHOUT_KEY: [
        Edit(_APPROVALS, "if is_same_person(one.approver, answer.approver))", "if False)"),
        Edit(_APPROVALS, "        connection.execute(mine)\n", ""),
    ],
}

NEEDS_READ_COMMITTED = ("the claim does not lock the request",)
"""SQLite has one writer at a time, so that a missing lock of a row changes nothing there."""
