"""Planted mistakes: changes of the package, made while it is imported, that a run of the processes must find.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_QUESTIONS = "graph_agent.question.transitions"
_APPROVALS = "graph_agent.chat.approvals"
_RULES = "graph_agent.chat.approval_rules"
_DUE = "graph_agent.due.table"
ONLY_THE_ASKING = "            if not _may_run(judges, stored):\n                return await self._is_void"
"""The place at which a process has what decides a request."""
_DONE = "        return connection.execute(delete(due).where(*_is(work))).rowcount == 1\n"

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "a question ends without its condition": [
        Edit(_QUESTIONS, "where(_Q.id == question_id, _IS_OPEN, *conditions)", "where(_Q.id == question_id, *conditions)"),
        Edit(
            _QUESTIONS,
            "        if question.state is QuestionState.OPEN:\n            if not question.in_time",
            "        if True:\n            if not question.in_time",
        ),
    ],
    "the time of a question is not compared": [
        Edit(
            _QUESTIONS,
            "and_(_Q.expires_at > self.now, _Q.opened_at <= database.time(TOLERANCE))",
            "and_(_Q.id == _Q.id, _Q.opened_at == _Q.opened_at)",
        ),
    ],
    "the rules under which others were asked are not judged": [
        Edit(_RULES, "        return AskedRules(tuple(found))\n", "        return AskedRules()\n")
    ],
    "the rules of the process that decides are not judged": [
        Edit(_APPROVALS, ONLY_THE_ASKING, "            judges = judges[1:] or judges\n" + ONLY_THE_ASKING),
    ],
    "work is done without its token": [
        Edit(_DUE, _DONE, _DONE.replace("*_is(work)", "due.c.kind == work.kind, due.c.key == work.key")),
    ],
    "the work of all users has one order": [Edit(_DUE, "            own.c.user_id == user,\n", "")],
}
