"""The words of the reasons for which a call is not made: one text for the model, and a clause for the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import CallDisposition
from graph_agent.policy.gates import BY_CONDITIONS
from graph_agent.policy.reasons import INVALID_ARGUMENTS, Reason, ReasonCode
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply import fixed
from graph_agent.reply.text import counted, exact, one_line, quoted

Say = str | Callable[..., str]
"""A text with places for the data of the reason, or a function of the data."""


class _Words(NamedTuple):
    model: Say
    user: Say = ""
    """Empty if the user reads what the model does."""


NOT_SERVED: Final = "the server of this tool does not serve it now"
"""The usual reason for which a granted tool is unavailable."""
NOT_PERMITTED: Final = "not permitted: "
"""The start of the text about a call that conditions refuse."""
_AWAITS_USER: Final = "waiting for the user's confirmation"
_AWAITS_OTHERS: Final = "waiting for the approval of another person"
_CHANGED_SINCE: Final = "it has changed since"
_MAX_VALUE: Final = 200
"""The longest value of an object that a reason shows, in characters."""
_TOO_MUCH: Final = "what this message has changed is too long to be shown before a question: "


def _named(text: str) -> Callable[..., str]:
    """Return the function that says a text, and the names of the rules."""
    return lambda names="", reason="": f"{text} ({names})" if names else text  # noqa: ARG005 (the user reads the facts)


def _rules(text: str) -> Callable[..., str]:
    """Return the function that names the rules with the facts that they read, or else says a text."""
    return lambda names="", reason="": reason or names or text


def _in_dry_run(text: str) -> _Words:
    said = f"{fixed.DRY_RUN}{text}"
    return _Words(
        lambda names="", reason="": f"{_named(said)(names)}; nothing was sent",  # noqa: ARG005 (as above)
        lambda names="", reason="": _named(said)(reason or names),
    )


def undone_already(decision_id: str) -> str:
    """Return the reason for an undo that another decision has made, as a clause."""
    return f"decision {decision_id} has undone it already"


def _changed_since(about: str, path: str, now: object, left: object) -> str:
    """Return the reason for an undo of what others have changed since. The values are a server's words."""
    now_and_then = f"{path} is now {_value(now)}, this change had left it at {_value(left)}"
    return f"{_CHANGED_SINCE} ({one_line(about, 200)}): {now_and_then}"


def _not_compared(why: str) -> str:
    return f"it is not known whether it has changed since: {why}"


def _value(value: object) -> str:
    if value is None:
        return "missing"
    return quoted(value, _MAX_VALUE) if isinstance(value, str) else exact(canonical_json(value), _MAX_VALUE)


def _misfit(path: str, violation: str) -> str:
    return f"the arguments do not fit the schema{path and f' at {path}'}: {violation}"


_WORDS: Final[Mapping[ReasonCode, _Words]] = MappingProxyType(
    {
        ReasonCode.TURN_ENDED: _Words("skipped: the turn stopped before this call"),
        ReasonCode.LEFT_OUT: _Words(
            "not run: it comes after a call that waits for the user's confirmation; request it again after the answer"
        ),
        ReasonCode.CARD_STOPPED: _Words(
            "not run: the call before it, which the user confirmed with it, was not done", fixed.STOPPED_BEFORE
        ),
        ReasonCode.SAME_CALL: _Words("not run: the same call waits for the user's confirmation already"),
        ReasonCode.UNAVAILABLE: _Words(lambda why: f"unavailable: {why or NOT_SERVED}", "not available now"),
        ReasonCode.NOT_LISTED: _Words("there is no such tool", "not in the constitution"),
        ReasonCode.TOO_MANY_AT_ONCE: _Words("at most {0} calls can be made at once", "at most {0} at once"),
        ReasonCode.TOO_MANY_CALLS: _Words("at most {0} calls can be made for one message", "at most {0} actions per message"),
        ReasonCode.NO_OBJECT: _Words("the arguments must be an object"),
        ReasonCode.NO_JSON: _Words("the arguments are not plain JSON"),
        ReasonCode.TOO_LARGE: _Words("the arguments are too large"),
        ReasonCode.TOO_DEEP: _Words("the arguments are nested too deeply"),
        ReasonCode.SET_BY_RUNTIME: _Words("'{0}' is set by the runtime: leave it out"),
        ReasonCode.UNCHECKED: _Words("the arguments cannot be checked"),
        ReasonCode.MISFIT: _Words(_misfit),
        ReasonCode.OWN_DATA_ONLY: _Words("only the signed-in user's own data can be used", "only your own data can be used"),
        ReasonCode.DONE_BEFORE: _Words("not run: it was done before the user was asked", "it was done before I asked you"),
        ReasonCode.LIMIT_PER_MESSAGE: _Words(
            lambda limit: f"this can be done at most {counted(limit, 'time')} for one message",
            "at most {0} per message (constitution)",
        ),
        ReasonCode.CONDITIONS: _Words(NOT_PERMITTED + "{0}", "{1}"),
        ReasonCode.AWAITS_USER: _Words(_named(_AWAITS_USER), _rules(_AWAITS_USER)),
        ReasonCode.AWAITS_OTHERS: _Words(_named(_AWAITS_OTHERS), _rules(_AWAITS_OTHERS)),
        ReasonCode.WOULD_BE_DONE: _in_dry_run("it would be done"),
        ReasonCode.WOULD_BE_ASKED: _in_dry_run("you would be asked first"),
        ReasonCode.WOULD_WAIT: _in_dry_run("it would wait for the approval of another person"),
        ReasonCode.MAY_CHANGE: _Words("it may change something"),
        ReasonCode.OBJECT_MISSING: _Words("what the call would act on does not exist", "it was not found"),
        ReasonCode.OBJECT_UNREADABLE: _Words("what the call would act on cannot be shown", "it could not be looked up"),
        ReasonCode.NOT_COMPARED: _Words(lambda why: f"not undone: {_not_compared(why)}", _not_compared),
        ReasonCode.CHANGED_SINCE: _Words(f"not undone: {_CHANGED_SINCE}", _changed_since),
        ReasonCode.UNDONE_ALREADY: _Words(lambda by: f"not undone: {undone_already(by)}", undone_already),
        ReasonCode.TOO_MUCH_TO_SHOW: _Words(f"{_TOO_MUCH}finish without this call", f"{_TOO_MUCH}ask for it in a new message"),
        ReasonCode.CHANGED_AGAIN: _Words(
            "not done: what the call acts on has changed again", "what it is about has changed again and again"
        ),
        ReasonCode.REQUESTED_ALREADY: _Words(
            "not done: it waits for an approval already (request {0})",
            "it waits for the approval of another person already (request {0})",
        ),
        ReasonCode.DENIED: _Words("not done: its approval was denied", "{0}"),
        ReasonCode.TOO_MANY_REQUESTS: _Words(
            "not done: {0} calls of this user wait for approvals already",
            "too many of your requests wait for approvals already",
        ),
        ReasonCode.GIVEN: _Words(
            lambda text, clause="", names="": _named(text)(names),  # noqa: ARG005 (the clause is for the user)
            lambda text, clause="", names="": clause or text,  # noqa: ARG005 (the clause has them)
        ),
    }
)
_INVALID: Final = "its details were not valid"


def for_model(reason: Reason | None) -> str:
    """Return a reason as the model, and the record, have it: without the words of a server. Empty without one."""
    return "" if reason is None else _said(_WORDS[reason.code].model, reason.values)


def for_user(reason: Reason | None) -> str:
    """Return a reason as a clause for the user; empty without one."""
    if reason is None:
        return ""
    if reason.code in INVALID_ARGUMENTS:
        return _INVALID
    words = _WORDS[reason.code]
    return _said(words.user or words.model, reason.values)


def rule_of(call: TurnCall) -> str:
    """Return the rule that refused a call, as a clause for the user; empty for a call that was not refused."""
    return for_user(call.reason) if call.disposition is CallDisposition.REFUSED else ""


def conditions_that_refused(gate: str | None, error: str | None) -> str | None:
    """Return the names of the conditions that refused a recorded call; None if they did not.

    A record of before has no gate: then the start of its text shows it.
    """
    text = error or ""
    by_conditions = text.startswith(NOT_PERMITTED) if gate is None else gate in BY_CONDITIONS
    return text.removeprefix(NOT_PERMITTED) if by_conditions else None


def _said(words: Say, values: tuple[Any, ...]) -> str:
    return words.format(*values) if isinstance(words, str) else words(*values)
