"""Words about rules: what those in the shadow would have done, and how the outcome of a change is learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from graph_agent.models.record import ShadowVerdict, ToolInvocation
from graph_agent.policy.tool_rule import EffectProof
from graph_agent.reply.text import quoted
from graph_agent.words.values import label

SHADOW_WORDS: Final[Mapping[str, str]] = {
    "asks": "would have asked the user about it",
    "waits": "would have asked other people about it",
    "refused": "would have refused it",
    "unknown": "cannot judge it: the record does not have what the rule reads",
}
"""The verdict of a rule in the shadow on a call."""
PROOF_WORDS: Final[Mapping[EffectProof, tuple[str, str]]] = {
    EffectProof.LEDGER: ("ledger", "If the answer is lost, the ledger of its server says whether it was done."),
    EffectProof.KEY: ("key", "If the answer is lost, the same call is sent again under its key: the server does it only once."),
    EffectProof.READ: ("reconciled", "If the answer is lost, a read finds whether it was done."),
    EffectProof.NONE: ("unknown", "If the answer is lost, it stays unknown whether it was done."),
}
"""A word for each way to learn the outcome of a change, and its meaning."""


def shadow_of(verdict: ShadowVerdict) -> str:
    """Return what a rule in the shadow would have done with a call, as a clause."""
    return f"{quoted(verdict.rule)} {SHADOW_WORDS[verdict.decision]}"


def in_shadow(calls: Iterable[ToolInvocation]) -> list[str]:
    """Return a sentence for each call and each rule in the shadow that would have changed the decision on it."""
    return [f"{label(call.tool_name)}: {shadow_of(one)}." for call in calls for one in call.shadow]
