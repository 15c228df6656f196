"""Planted mistakes about plans: changes of the package, made while it is imported, that the generated turns must find.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_GATES = "graph_agent.policy.gates"
_GUARD = "graph_agent.policy.guard"
_PLAN = '    Gate("plan", gates.passes, "(only reads)", EvidenceKind.MANDATE, gates.may_be_covered),\n'
_CONDITIONS = "    Gate(gates.CONDITIONS,"

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "the mandate is looked at before the conditions": [
        Edit(_GUARD, _PLAN, ""),
        Edit(_GUARD, _CONDITIONS, _PLAN + _CONDITIONS),
        Edit(
            _GATES,
            "        return None\n    return _refused_by(hand, ruling) or hand.found._replace(ruling=ruling)\n",
            "        return None\n"
            "    if hand.evidence.covered is not None:\n"
            "        return hand.found._replace(ruling=ruling._replace(verdict=Verdict.ASKS, needs=None))\n"
            "    return _refused_by(hand, ruling) or hand.found._replace(ruling=ruling)\n",
        ),
        Edit(
            _GATES,
            "    return hand.rule.grant.requires_confirmation or ruling.verdict is Verdict.ASKS\n\n\ndef has_consent",
            "    return True\n\n\ndef has_consent",
        ),
        Edit(
            _GATES,
            "if ruling is None else _refused_by(hand, ruling) or _consent(hand, ruling)",
            "if ruling is None else _consent(hand, ruling)",
        ),
        Edit(
            "graph_agent.turn.recorder",
            "runs = decided.permits(confirmed=confirmed or drawn is not None) and (drawn is not None or not wants_draw)",
            "runs = drawn is not None if wants_draw else decided.permits(confirmed=confirmed)",
        ),
    ],
    "a value is compared by containment": [
        Edit(
            "graph_agent.policy.mandate",
            "Counter(map(_exact, leaves)) <= Counter(map(_exact, values))",
            "all(any(str(leaf) in str(one) for one in values) for leaf in leaves)",
        )
    ],
    "a draw is stored after its call was sent": [
        Edit(
            "graph_agent.record.writer",
            "                    if not reservation.judge(past, drawn)[1]:\n"
            "                        attempt_to_draw.rollback()\n"
            "                        drawn = None\n",
            "                    attempt_to_draw.rollback()\n"
            "                    if not reservation.judge(past, drawn)[1]:\n"
            "                        drawn = None\n"
            "                    else:\n"
            "                        self.late = wanted, operation, decision_id, at, sealer\n",
        ),
        Edit(
            "graph_agent.record.writer",
            "        free = await self._write(append_all, _continued(decision_id))\n",
            "        if (late := vars(self).pop('late', None)) is not None:\n"
            "            await self._write(lambda connection: draw(connection, *late), 'the call was sent')\n"
            "        free = await self._write(append_all, _continued(decision_id))\n",
        ),
    ],
}
"""The name of each mistake -> what it changes."""
