"""Planted mistakes: changes of the transitions of approval requests, made while they are imported, that the race must find.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_QUESTIONS = "graph_agent.question.transitions"
_ENDED = "        if question.state is not QuestionState.OPEN or (answer.yes and not question.in_time):\n"
_CLAIMED = """        question = self.find(connection, question_id, lock=True)
        if question is None or question.asks is not Asks.OTHERS or question.closed_by is not None:
"""
_UNCLOSED = "_Q.state == question.state, _Q.closed_by.is_(None))"
_ANYONE = '    CheckConstraint("(asks = \'requester\') = (person = requester)", name="only_those_who_are_asked"),\n'
_OWN = "        if is_same_person(question.user_id, answer.person):\n            raise"
_ASKED = "        if connection.execute(asked).first() is None:\n"

WITHOUT_KEY = "a double click is not looked for, and the answers have no key"
"""The table of the answers loses its key, too."""

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "the claim does not lock the request": [Edit(_QUESTIONS, _CLAIMED, _CLAIMED.replace(", lock=True", ""))],
    "the claim does not look at the closing decision": [
        Edit(
            _QUESTIONS,
            _CLAIMED,
            _CLAIMED.replace(" or question.closed_by is not None", ""),
        ),
        Edit(_QUESTIONS, _UNCLOSED, "_Q.state == question.state)"),
    ],
    "a denial does not look at the state": [
        Edit(
            _QUESTIONS,
            _ENDED,
            "        if answer.yes and (question.state is not QuestionState.OPEN or not question.in_time):\n",
        ),
        Edit(_QUESTIONS, _ASKED, _ASKED.replace("if ", "if answer.yes and ")),
        Edit(_QUESTIONS, "where(_Q.id == question_id, _IS_OPEN, *conditions)", "where(_Q.id == question_id, *conditions)"),
    ],
    "an approval does not look at the state": [
        Edit(_QUESTIONS, _ENDED, "        if answer.yes and not question.in_time:\n"),
        Edit(_QUESTIONS, _ASKED, "        if False:\n"),
    ],
    "a late approval is stored": [Edit(_QUESTIONS, _ENDED, "        if question.state is not QuestionState.OPEN:\n")],
    "a late request is claimed": [
        Edit(_QUESTIONS, "if not question.in_time or not may_run(question)", "if not may_run(question)"),
        Edit(_QUESTIONS, "decision_id, self.in_time)", "decision_id)"),
    ],
    "the requester may answer": [
        Edit(_QUESTIONS, _OWN, _OWN.replace("is_same_person(question.user_id, answer.person)", "False")),
        Edit("graph_agent.question.tables", _ANYONE, ""),
    ],
    WITHOUT_KEY: [
        Edit(_QUESTIONS, "if is_same_person(one.person, answer.person))", "if False)"),
        Edit(_QUESTIONS, "        connection.execute(delete(answers).where(*mine)).close()\n", ""),
    ],
}

NEEDS_READ_COMMITTED = ("the claim does not lock the request",)
"""SQLite has one writer at a time, so that a missing lock of a row changes nothing there."""
