"""The evaluations of one call by Cedar, and the verdict that follows from them."""

from __future__ import annotations

import re
from typing import NamedTuple

from cedarpy import AuthzResult, Decision

from graph_agent.policy.cedar.conditions import Verdict

POLICY_ID = re.compile(r"`?policy(\d+)`?")


class Evaluations(NamedTuple):
    """The results of Cedar for one call."""

    now: AuthzResult
    """As it is."""
    yes: AuthzResult
    """With the user's yes."""
    everybody: AuthzResult
    """With the approval of everybody."""
    both: AuthzResult

    @property
    def failed(self) -> AuthzResult | None:
        """The first one in which a condition could not be evaluated, or that has no decision."""
        return next((one for one in self if one.decision is Decision.NoDecision or one.diagnostics.errors), None)

    @property
    def verdict(self) -> Verdict:
        """The verdict, if none has failed."""
        return _verdict(*map(_is_allowed, self))

    def with_rule(self, key: str, whole: Evaluations) -> Verdict:
        """Return the verdict with one more `forbid`. `whole` are the evaluations by a set of conditions that has it.

        Cedar names every `forbid` that matches, so that the others of that set do not matter.
        """
        if any(one.decision is Decision.NoDecision or key in failed_keys(one) for one in whole):
            return Verdict.REFUSED
        pairs = zip(self, whole, strict=True)
        return _verdict(*(_is_allowed(own) and key not in one.diagnostics.reasons for own, one in pairs))


def failed_keys(result: AuthzResult) -> set[str]:
    """Return the keys of the conditions that could not be evaluated."""
    return {f"policy{found[1]}" for error in result.diagnostics.errors if (found := POLICY_ID.search(str(error)))}


def _is_allowed(result: AuthzResult) -> bool:
    return result.decision is Decision.Allow


def _verdict(now: bool, yes: bool, everybody: bool, both: bool) -> Verdict:
    # A call that the yes forbids is refused, though it would be allowed without.
    if yes:
        return Verdict.RUNS if now else Verdict.ASKS
    if not both:
        return Verdict.REFUSED
    return Verdict.WAITS if everybody else Verdict.ASKS
