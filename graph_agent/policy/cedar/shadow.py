"""Rules in the shadow: a `forbid` with the annotation `@shadow` is judged and recorded, but decides nothing.

What such a rule would have decided is exactly what the conditions decide with it: those that decide anyway, and this one rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    # Only named in signatures, because it imports this module.
    from graph_agent.policy.cedar.evaluation import CedarConditions

ANNOTATION: Final = "shadow"
_KEPT: Final = 8
_STRICTNESS: Final = (Verdict.RUNS, Verdict.ASKS, Verdict.WAITS, Verdict.REFUSED)


class ShadowedVerdict(NamedTuple):
    """The verdict on a call that a rule in the shadow would have changed."""

    rule: str
    """The name of the rule."""
    verdict: Verdict | None
    """The verdict with the rule, stricter than the one that was made. None if what the rule reads is not known."""


class ShadowRules:
    """The rules of a file that are in the shadow."""

    def __init__(
        self,
        everything: CedarConditions,
        names: Mapping[str, str],
        enforcing: Callable[[str], CedarConditions],
    ) -> None:
        """`everything` are the conditions with all rules in the shadow, `names` those of these rules by key.

        `enforcing` returns the conditions with the rule of one key.
        """
        self.everything = everything
        self._names = names
        self._enforcing = enforcing
        self._each: dict[str, CedarConditions] = {}
        self._known: deque[tuple[str, dict[str, Any], Situation, Verdict]] = deque(maxlen=_KEPT)
        """The last calls that were judged with all rules: the guard judges a batch, and each call then again for its record."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the rules."""
        return frozenset(self._names.values())

    def runs(self, tool_name: str, arguments: dict[str, Any], situation: Situation) -> bool:
        """True if a call runs also with all rules. A `forbid` only restricts, so then it runs without them, and with each."""
        return self._strictest(tool_name, arguments, situation) is Verdict.RUNS

    def judge(
        self, decided: Callable[[], ConditionsVerdict], tool_name: str, arguments: dict[str, Any], situation: Situation
    ) -> Sequence[ShadowedVerdict]:
        """Return what each rule would have decided about a call, if it is stricter than what `decided` returns."""
        # A record that was made without these rules may not have what some of them read.
        lacks = self.everything.lacks_facts(tool_name, situation)
        strictest = Verdict.REFUSED if lacks else self._strictest(tool_name, arguments, situation)
        if strictest is Verdict.RUNS:
            return ()
        made = _STRICTNESS.index(decided().verdict)
        if _STRICTNESS.index(strictest) <= made:
            return ()
        found = []
        for key, name in self._names.items():
            if not self.everything.is_about(key, tool_name):
                continue
            conditions = self._with(key)
            if lacks and conditions.lacks_facts(tool_name, situation):
                found.append(ShadowedVerdict(name, None))
                continue
            verdict = conditions.judge(tool_name, arguments, situation).verdict
            if _STRICTNESS.index(verdict) > made:
                found.append(ShadowedVerdict(name, verdict))
        return found

    def _strictest(self, tool_name: str, arguments: dict[str, Any], situation: Situation) -> Verdict:
        # The guard goes on to extend its list of earlier calls; most conditions do not depend on them.
        earlier = tuple(situation.earlier) if self.everything.depends_on_calls(tool_name) else ()
        situation = replace(situation, earlier=earlier)
        for name, given, known, verdict in tuple(self._known):
            # The same object, because equal arguments may be judged otherwise: True == 1.
            if given is arguments and (name, known) == (tool_name, situation):
                return verdict
        verdict = self.everything.judge(tool_name, arguments, situation).verdict
        self._known.append((tool_name, arguments, situation, verdict))
        return verdict

    def _with(self, key: str) -> CedarConditions:
        if key not in self._each:
            # Most rules never change a verdict, so they are compiled for the first call that one may change.
            self._each[key] = self._enforcing(key)
        return self._each[key]
