"""Replies to a required request: from servers that obey, ignore or refuse the requirement, or return nothing usable."""

from __future__ import annotations

from typing import Any

from tests.llm.wire_apis import API, Call
from tests.llm.wire_scenarios import INVALID, TIMEOUT, UNAVAILABLE, Outcome, Scenario, calls, limited, one, text, truncated
from tests.llm.wire_server import Reply, hangs, says

ANSWER = Call("answer", {"text": "Yes.", "reports_change": False}, id="a")
ONCE, TWICE, FALLBACK = (True,), (True, True), (True, False)
"""Which of the requests require a call."""

YES = text("Yes.")


def _yes(api: API) -> Reply:
    return says(api.answer(text="Yes."))


def _refusal(status: int) -> Scenario:
    return Scenario(
        f"status {status} if a call is required, then text",
        lambda s: [says(s.error(status), status), _yes(s)],
        YES,
        requirements=FALLBACK,
    )


def _no_fallback(status: int, becomes: Outcome, requirements: tuple[bool, ...]) -> Scenario:
    return Scenario(
        f"status {status}, whose reason is not the requirement",
        lambda s: [*[says(s.error(status), status)] * len(requirements), _yes(s)],
        becomes,
        requirements=requirements,
    )


def _nothing_usable(wire: str, body: Any) -> Scenario:
    return Scenario(f"{wire}, then text", lambda s: [says(body(s)), _yes(s)], YES, requirements=FALLBACK)


REQUIRED = (
    Scenario(
        "a server that obeys: a call of a reply form",
        one(lambda s: s.answer(calls=[ANSWER], finish="calls")),
        calls((ANSWER.name, ANSWER.args, "a")),
        requirements=ONCE,
    ),
    Scenario(
        "a server that obeys, with the finish reason of text",
        one(lambda s: s.answer(calls=[ANSWER], finish="stop")),
        calls((ANSWER.name, ANSWER.args, "a")),
        requirements=ONCE,
    ),
    Scenario("a server that ignores the requirement: text", one(lambda s: s.answer(text="Yes.")), YES, requirements=ONCE),
    *(_refusal(status) for status in (400, 404, 422, 501)),
    *(_no_fallback(status, UNAVAILABLE, ONCE) for status in (401, 403)),
    _no_fallback(429, limited(None), ONCE),
    *(_no_fallback(status, UNAVAILABLE, TWICE) for status in (500, 503)),
    Scenario(
        "no reply in time, whose reason is not the requirement",
        lambda s: [hangs(), hangs(), _yes(s)],
        TIMEOUT,
        limit=0.5,
        requirements=TWICE,
    ),
    _nothing_usable("an empty object", lambda _: {}),
    _nothing_usable("a stop without content", lambda s: s.answer()),
    _nothing_usable("an announced call that is missing", lambda s: s.answer(finish="undeclared")),
    _nothing_usable("the finish reason of a malformed call", lambda s: s.answer(finish="malformed")),
    _nothing_usable("the limit of tokens, after a call of a tool", lambda s: s.answer(calls=[Call()], finish="truncated")),
    Scenario(
        "an announced call that is missing, beside text",
        one(lambda s: s.answer(text="Yes.", finish="undeclared")),
        YES,
        requirements=ONCE,
    ),
    Scenario(
        "the limit of tokens, in the middle of a reply form",
        one(lambda s: s.answer(calls=[Call("answer", {"text": "Once upon"})], finish="truncated")),
        truncated("Once upon"),
        requirements=ONCE,
    ),
    Scenario(
        "status 500, then status 400, then text",
        lambda s: [says(s.error(500), 500), says(s.error(400), 400), _yes(s)],
        YES,
        requirements=(True, True, False),
    ),
    Scenario(
        "status 400, then an empty object: the first error counts",
        lambda s: [says(s.error(400), 400), says({})],
        UNAVAILABLE,
        requirements=FALLBACK,
    ),
    Scenario(
        "an empty object, then status 429: the first error counts",
        lambda s: [says({}), says(s.error(429), 429)],
        INVALID,
        requirements=FALLBACK,
    ),
)
