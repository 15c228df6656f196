"""Confirmation: the question, the user's answer to it, and the signature that binds the two. Code does all of it.

Consent is the user's own next message, read against a closed vocabulary. Nothing a model says counts.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from datetime import datetime
from enum import StrEnum
from typing import Any

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.policy.receipts import one_line
from graph_agent.policy.rules import ToolRule

# Phrases as they read without case and punctuation. The lists are closed on purpose: what is not here is no consent.
_YES = frozenset(
    line.strip()
    for row in """
    yes | y | ya | yah | yea | yeah | yep | yup | yes yes
    yes please | yes do | yes do it | yes go ahead | yes i do | yes i am
    yes i am sure | yes im sure | yes sure | yes confirm
    yes i confirm | yes delete it | yes remove it | yes delete
    yes remove
    yes delete that | yes that one | yes thats right | yes thank you | yes thanks | yes of course | sure | sure thing
    sure do it | sure go ahead
    of course | absolutely | definitely | certainly | ok | okay | k | ok do it | okay do it | ok go ahead
    okay go ahead | ok yes | okay yes | ok delete it | okay delete it | alright | all right | confirm | confirmed | i confirm
    confirm it | do it | do that | please do | please do it | go ahead | go for it | proceed | correct | thats right
    that is right | right | affirmative | delete it | delete | remove it | im sure | i am sure | yeah sure | yeah do it
    yeah go ahead | yeah delete it | yep do it | yep delete it | yup do it
    """.splitlines()
    for line in row.split("|")
) - {""}
_NO = frozenset(
    line.strip()
    for row in """
    no | n | nah | nope | no no | no thanks | no thank you | no dont | no do not | no dont do it | no dont delete it
    no do not delete it | no keep it | no cancel | no stop | no way | no wait | no please dont | no i dont | no not that one
    not that one | dont | do not | dont do it | do not do it | dont delete it | do not delete it | please dont | cancel
    cancel it | cancel that | stop | stop it | abort | never mind | nevermind | nvm | forget it | keep it | keep | leave it
    wait | wait no | negative | not now | not yet | hold on | i changed my mind | changed my mind | on second thought no
    actually no | rather not
    """.splitlines()
    for line in row.split("|")
) - {""}
_ASKS = re.compile("[?؟՞‽❓❔]")


class Consent(StrEnum):
    """How the user's message answers the question; anything that is neither is no answer."""

    YES = "yes"
    NO = "no"
    NEITHER = "neither"


def read_consent(message: str) -> Consent:
    """Read `message` against the closed vocabulary: case, punctuation and emoji aside it must be one of its phrases.

    A phrase that asks ("Yes?", "delete it?") agrees to nothing.
    """
    text = unicodedata.normalize("NFKC", message).casefold().replace("'", "").replace("’", "")
    phrase = " ".join(re.sub(r"[^\w\s]|_", " ", text).split())
    if phrase in _YES and not _ASKS.search(text):
        return Consent.YES
    if phrase in _NO:
        return Consent.NO
    return Consent.NEITHER


class Signer:
    """HMAC-SHA256 over every field of a pending action, with the user and the conversation it belongs to."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> str:
        content = {**pending.to_json(), "signature": "", "user_id": user_id, "conversation_id": conversation_id}
        return hmac.new(self._secret, canonical_json(content).encode(), hashlib.sha256).hexdigest()

    def verify(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> bool:
        expected = self.sign(pending, user_id=user_id, conversation_id=conversation_id)
        return hmac.compare_digest(expected.encode(), pending.signature.encode())


def alive(pending: PendingAction, now: datetime) -> bool:
    """Whether `pending` may still be answered. A clock that went back before its creation does not revive it."""
    return pending.created_at <= now < pending.expires_at


def confirmation_question(rule: ToolRule, arguments: dict[str, Any], preview: str | None) -> str:
    """The question to the user, from the recorded preview and the exact arguments; one line, never the model's words."""
    return f"{one_line(rule.title)}: {describe_call(arguments, preview)}. Should I go ahead? Please answer yes or no."


def describe_call(arguments: dict[str, Any], preview: str | None) -> str:
    """What a call would act on, on one line: `'call mom'`, or every argument where there is no preview.

    A preview shows what stands behind an id: of a call that has more to say, the arguments follow it. Each one is shortened by
    itself, so that none can push another out of sight.
    """
    told = ", ".join(
        f"{one_line(key)} = {one_line(value if isinstance(value, str) else canonical_json(value))}"
        for key, value in arguments.items()
    )
    if preview is None:
        return told or "(nothing further)"
    return f"'{one_line(preview)}'" if len(arguments) <= 1 else f"'{one_line(preview)}' ({told})"
