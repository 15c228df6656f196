"""What a model's plain text is: an answer, a question that must be answered first, or a refusal.

The model has forms for asking and declining (`ask_user`, `decline`); this reads what it says when it speaks instead. Each
sentence makes some of the moves of `phrases`; the first of `_RULES` that holds for the whole reply decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from graph_agent.reply.phrases import does, languages_of
from graph_agent.reply.plain_text_sentences import QUOTED, Sentence, sentences

ClarificationReason = Literal["unclear_intent", "multiple_matches", "missing_context"]


@dataclass(frozen=True, slots=True)
class ReplyKind:
    """`reason` is set for a clarification, and only then."""

    kind: Literal["answer", "clarification", "refusal"]
    reason: ClarificationReason | None = None


ANSWER = ReplyKind("answer")
REFUSAL = ReplyKind("refusal")
UNCLEAR = ReplyKind("clarification", "unclear_intent")
SEVERAL = ReplyKind("clarification", "multiple_matches")
MISSING = ReplyKind("clarification", "missing_context")


def classify_reply(text: str) -> ReplyKind:
    """The kind of a reply in plain text, in any of some twenty languages. Never raises; linear in the text."""
    reply = _Reply(sentences(text))
    return next((kind for rule in _RULES if (kind := rule(reply)) is not None), ANSWER)


_LEADS = ("filler", "lost", "missing", "several", "invite", "request")
"""Moves that only lead to a question, or away from it."""


class _Reply:
    """One reply, looked at as a whole; each trait is found out once, when a rule asks for it."""

    def __init__(self, parts: tuple[Sentence, ...]) -> None:
        spoken = [part for part in parts if not part.item] or list(parts)
        self._spoken = spoken
        self._languages = languages_of(" ".join(part.text for part in parts))
        self.options = sum(part.item for part in parts)
        self.texts = [part.text for part in spoken]
        self.statements = [part.text for part in spoken if not part.asks]
        self.questions = [part.text for part in spoken if part.asks]

    def does(self, text: str, *moves: str) -> bool:
        """Whether a sentence of this reply makes one of these moves."""
        return any(does(move, text, self._languages) for move in moves)

    def says(self, *moves: str) -> bool:
        """Whether a statement makes one of these moves."""
        return any(self.does(text, *moves) for text in self.statements)

    @cached_property
    def last_question(self) -> str | None:
        """The question the reply ends with; options, examples and invitations may follow it."""
        for part in reversed(self._spoken):
            if part.asks:
                return part.text
            if not self.does(part.text, "invite", "filler", "request"):
                return None
        return None

    @cached_property
    def done(self) -> bool:
        return self.says("done")

    @cached_property
    def lists(self) -> bool:
        """It shows what there is; several that fit are shown to choose from."""
        return self.says("listing") and not self.says("several")

    @cached_property
    def greets(self) -> bool:
        return self.says("greeting") or any(self.does(text, "greeting") for text in self.questions)

    @cached_property
    def settled(self) -> bool:
        """The user has what was asked for: whatever the reply asks then may be left unanswered."""
        return self.done or self.lists or self.greets

    @cached_property
    def several(self) -> bool:
        """More than one thing fits."""
        return self.says("several") or any(self.does(text, "several") for text in self.questions) or self.options > 1

    @cached_property
    def troubled(self) -> bool:
        """It says what keeps it from acting: nothing of the name, too much of it, or no idea."""
        return self.says("lost", "missing", "several")

    @cached_property
    def refusals(self) -> list[str]:
        return [text for text in self.statements if self.does(text, "refuse") and not self._explains_a_failure(text)]

    @cached_property
    def tells(self) -> bool:
        """Something was told that is neither filler nor trouble."""
        return any(not self.does(text, *_LEADS) and text.strip(" .!:,") != QUOTED for text in self.statements)

    @cached_property
    def tells_a_thought(self) -> bool:
        """A whole thought of its own was told, not about something quoted."""
        return any(len(text.split()) >= 8 and QUOTED not in text and not self.does(text, *_LEADS) for text in self.statements)

    def must_be_answered(self, question: str) -> bool:
        """Whether this asks about the very thing that was wanted: which, what words, what is meant."""
        if self.does(question, "choice") and not self.settled and not self.refusals:
            return True
        if self.does(question, "offer") or ((self.done or self.lists) and self.does(question, "more")):
            return False
        if self.does(question, "pick"):
            return not (self.greets and self.does(question, "more"))
        if self.does(question, "fill"):
            if self.done:
                return self.troubled
            offers_more = self.lists or (self.greets and self.does(question, "more"))
            return not (offers_more and self.does(question, "fresh"))
        return self.does(question, "mean") and not self.settled and not self._asks_to_retry(question)

    def _asks_to_retry(self, question: str) -> bool:
        return self.does(question, "failed") and self.says("failed")

    def _explains_a_failure(self, text: str) -> bool:
        return self.does(text, "missing", "failed", "lost")

    def reason(self, question: str) -> ReplyKind:
        """The clarification that a question or request is part of."""
        named = question.count(QUOTED)
        if self.does(question, "purpose"):
            return UNCLEAR
        if self.does(question, "pick"):
            told = not self.says("missing") and (self.several or named > 1 or self.does(question, "options"))
            return SEVERAL if told else MISSING
        if self.does(question, "fill", "details"):
            return MISSING
        if self.several or (named > 1 and self.does(question, "mean")):
            return SEVERAL
        return MISSING if self.says("missing") else UNCLEAR


def _declines(reply: _Reply) -> ReplyKind | None:
    """A refusal, unless something was done all the same or the user's choice lifts the limit."""
    if not reply.refusals or reply.done:
        return None
    only_the_way = all(reply.does(text, "limit") for text in reply.refusals)
    return None if only_the_way and any(map(reply.must_be_answered, reply.questions)) else REFUSAL


def _leads_back(reply: _Reply) -> ReplyKind | None:
    """A refusal in words of its own: something is put aside, and the tasks are offered in its place."""
    aside = [text for text in reply.statements if reply.does(text, "aside") and len(text.split()) > 3]
    if not aside or reply.settled or reply.troubled or reply.says("failed"):
        return None
    return REFUSAL if any(reply.does(text, "redirect") for text in reply.texts) else None


def _asks_outright(reply: _Reply) -> ReplyKind | None:
    return next((reply.reason(text) for text in reply.questions if reply.must_be_answered(text)), None)


def _proposes(reply: _Reply) -> ReplyKind | None:
    """Shall this one thing be done? Not where something was just done, shown, or not found: there it is an offer."""
    question = reply.last_question
    if question is None or reply.settled:
        return None
    if reply.tells_a_thought or reply.does(question, "offer", "failed") or (reply.says("missing") and not reply.several):
        return None
    return reply.reason(question) if reply.does(question, "propose", "mean") else None


def _asks_at_the_end(reply: _Reply) -> ReplyKind | None:
    """Any other question, where it is all there is."""
    question = reply.last_question
    if question is None or reply.settled or reply.tells or reply.says("missing", "failed"):
        return None
    if reply.does(question, "offer") and not reply.says("lost"):
        may_wait = reply.statements or not reply.does(question, "propose")
        return None if may_wait else reply.reason(question)
    return reply.reason(question)


def _requests(reply: _Reply) -> ReplyKind | None:
    """Asking without a question mark."""
    requests = [text for text in reply.statements if reply.does(text, "request")]
    if not requests or reply.settled:
        return None
    for text in requests:
        failed = reply.does(text, "failed") and not reply.does(text, "lost")
        if not failed and not reply.does(text, "howto"):
            return reply.reason(text)
    return None


def _is_lost(reply: _Reply) -> ReplyKind | None:
    return UNCLEAR if reply.says("lost") and not reply.settled else None


_RULES: tuple[Callable[[_Reply], ReplyKind | None], ...] = (
    _declines,
    _leads_back,
    _asks_outright,
    _proposes,
    _asks_at_the_end,
    _requests,
    _is_lost,
)
