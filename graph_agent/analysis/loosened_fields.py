"""The changes of a field of a policy, its tools, its servers or the settings that loosen it: one table for each type.

`policy diff` reports what a row finds. A field without a row fails a test, so that none is added without a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from graph_agent.analysis.questions import AnalysisResult, Change
from graph_agent.policy.constitution import InPlans, UndoneBy, read_limited
from graph_agent.settings import Settings


class Row(NamedTuple):
    """The decision about one field."""

    why: str
    """The new permission; for a field that no row compares, why none has to."""
    loosens: Callable[[Any, Any], bool] | None = None
    """True if the new value permits more than the old one, or if that is not known."""
    change: Change = Change.NOT_COMPARED


Rows = Mapping[str, Row]


def compare_fields(rows: Rows, name: str, old: Any, new: Any) -> Iterator[AnalysisResult]:
    """Yield what the fields of `new` loosen."""
    for field, row in rows.items():
        before, after = getattr(old, field), getattr(new, field)
        if row.loosens is not None and row.loosens(before, after):
            yield AnalysisResult(name, row.change, why=row.why)


def compare_settings(old: Settings, new: Settings) -> Iterator[AnalysisResult]:
    """Yield what other settings loosen, by the names of their variables."""
    for field, info in Settings.model_fields.items():
        yield from compare_fields({field: SETTINGS[field]}, str(info.alias), old, new)


def _differs(before: Any, after: Any) -> bool:
    return bool(before != after)


def _appears(before: Any, after: Any) -> bool:
    return bool(after) and not before


def _disappears(before: Any, after: Any) -> bool:
    return bool(before) and not after


def _has_more(before: Any, after: Any) -> bool:
    return not set(after) <= set(before)


def _is_raised(before: float | None, after: float | None) -> bool:
    """True for a higher limit. None is no limit."""
    return before is not None and (after is None or after > before)


def _is_lowered(before: float, after: float) -> bool:
    return after < before


def _undoes_more(before: UndoneBy | None, after: UndoneBy | None) -> bool:
    if before is None or after is None:
        return after is not None
    return replace(before, lifetime=after.lifetime) != after or after.lifetime > before.lifetime


def _plans_more(before: InPlans | None, after: InPlans | None) -> bool:
    return after is not None and after is not before and before is not InPlans.ANY


def _has_more_signers(before: Path | None, after: Path | None) -> bool:
    """True if other keys may sign approvals, or if these need no signature any more. Raises `ConfigurationError`."""
    if before is None or after is None:
        return before is not None
    return _has_more(*(read_limited("file of the approvers' keys", one).splitlines() for one in (before, after)))


CALLS: Final = Row("the calls that it permits are compared")
WORDS: Final = Row("people and the model read it; it decides about no call")
NAME: Final = Row("it is what is compared")
OWN_TABLE: Final = Row("its fields are compared")
OPERATION: Final = Row("it decides about no call")
WIDER: Final = partial(Row, loosens=_is_raised, change=Change.WIDER)
OTHER: Final = partial(Row, loosens=_differs)

GRANT: Final[Rows] = {
    "name": NAME,
    "summary": WORDS,
    "requires_confirmation": CALLS,
    "without_confirmation": CALLS,
    "reads": CALLS,
    "trusted_results": Row("", _appears, Change.BELIEVED),
    "max_per_message": CALLS,
    "bound_argument": CALLS,
    "key": OTHER("another operation key: a call whose answer was lost is sent again by another one, or not at all"),
    "done_if": OTHER("another read, or none, decides whether a call was made whose answer was lost"),
    "sentence": WORDS,
    "reads_for_sentence": WORDS,
    "undone_by": Row("it can be undone by another call, for longer, or without a comparison", _undoes_more),
    "in_plans": Row("a plan may cover calls of it, or may take values of any form from results", _plans_more, Change.WIDER),
    "line": WORDS,
}
TRAITS: Final[Rows] = {
    "title": WORDS,
    "read_only": CALLS,
    "destructive": Row("a destructive tool needs a marker, whose calls are compared"),
    "ledger": Row("its server no longer keeps a ledger, so an unknown outcome stays unknown", _disappears),
    "preview": Row("its server no longer says what a call is about before the yes", _disappears),
    "untrusted": Row("its server is compared"),
    "transport": Row("its server is compared"),
    "output": Row("its changes are named if facts are read from its results"),
    "unread": WORDS,
}
LISTED: Final[Rows] = {
    "name": NAME,
    **dict.fromkeys(("title", "description", "icons"), WORDS),
    **dict.fromkeys(("input_schema", "output_schema"), Row("the declaration and the traits are compared")),
    **dict.fromkeys(("annotations", "meta"), Row("the traits are compared")),
    "execution": OPERATION,
}
"""A definition of a tool as a server lists it, and as the lock file has it."""
ANNOTATIONS: Final[Rows] = {
    **dict.fromkeys(("title", "read_only_hint", "destructive_hint"), Row("the traits are compared")),
    **dict.fromkeys(("idempotent_hint", "open_world_hint"), Row("nothing reads it but a draft of the constitution")),
}
DECLARATION: Final[Rows] = {"name": NAME, "description": WORDS, "parameters": CALLS}
RULE: Final[Rows] = {
    **dict.fromkeys(("grant", "declaration", "traits"), OWN_TABLE),
    "check": CALLS,
    "served": CALLS,
    "key": Row("the marker in the constitution is compared"),
    "takes_user_id": CALLS,
    "hidden": WORDS,
}
CONSTITUTION: Final[Rows] = {
    "text": WORDS,
    "grants": OWN_TABLE,
    "facts": OWN_TABLE,
    "prompts": Row("clients of the gateway are offered another prompt of a server", _has_more, Change.WIDER),
}
_DECLARED: Final = Row("conditions and lines that name a fact are not compared if it is declared otherwise")
FACT: Final[Rows] = {
    "name": NAME,
    **dict.fromkeys(("kind", "tools", "parameters", "of", "path", "fold", "times"), _DECLARED),
    "text": Row("its parts are compared"),
    "line": WORDS,
}
SOURCE: Final[Rows] = dict.fromkeys(("root", "steps"), _DECLARED)
_UNDONE_OTHERWISE: Final = Row("a call is named that can be undone otherwise, or for longer")
UNDONE_BY: Final[Rows] = dict.fromkeys(("tool", "parameters", "lifetime", "before"), _UNDONE_OTHERWISE)
_FOUND_OTHERWISE: Final = Row("a call is named that is found again otherwise")
DONE_IF: Final[Rows] = dict.fromkeys(("fact", "tool", "parameters", "path", "complete_after"), _FOUND_OTHERWISE)
CONDITIONS: Final[Rows] = {
    "text": CALLS,
    "name": WORDS,
    "roles": Row("roles that did not count before count now: who has them is not compared", _has_more),
    "time_zone": OTHER("another time zone: conditions see other hours, and days and hours are counted from other moments on"),
    "servers": CALLS,
}
POLICY: Final[Rows] = {
    **dict.fromkeys(("constitution", "rules", "conditions"), OWN_TABLE),
    "unavailable": CALLS,
    "servers": Row("a tool that moved is named"),
}
SERVER: Final[Rows] = {
    "name": NAME,
    "server": OTHER("it is another program or address"),
    "trusted": Row("", _appears, Change.TRUSTED),
    "functions": Row("its program is compared"),
    "prefixed": Row("its tools have other names, whose calls are compared"),
    "timeout": OPERATION,
    "start_timeout": OPERATION,
    "credentials": OTHER("another identity: it may permit other things to it"),
    "user_token": OTHER("it acts with other rights: those of the signed-in user, or of another audience"),
    "empty": OTHER("another command removes its data before a test case"),
    "secrets": Row("they are parts of its program, address and identity"),
}
_SIGN_IN: Final = OTHER("other users may sign in, or be taken for others")
_AUDITORS: Final = OTHER("others may read the record of all users")
_SIGNED: Final = OTHER("what other keys have signed counts")
SETTINGS: Final[Rows] = {
    **dict.fromkeys(("constitution", "conditions", "mcp"), Row("the files are compared")),
    "home": OTHER("other keys and sign-ins"),
    "database_url": OTHER("another database: what was used, asked and answered before is not in it"),
    "roles": OTHER("others have the roles that conditions name"),
    "time_zone": OTHER("days are counted in another time zone"),
    "secret": _SIGNED,
    "previous_secrets": Row(_SIGNED.why, _has_more),
    "timeout_seconds": WIDER("a turn may take longer"),
    "attempt_seconds": OPERATION,
    "max_iterations": OTHER("a turn may have more rounds of calls"),
    "after_yes": OTHER("after a yes, the model may be asked again"),
    "approval_hours": WIDER("an approval may be given later"),
    "approval_messages": OPERATION,
    "approver_keys": Row("the answers of others count as approvals", _has_more_signers),
    "turns_per_minute": WIDER("a user may have more turns"),
    "turn_tokens": WIDER("a turn may use more tokens"),
    "day_tokens": WIDER("a user may use more tokens in a day"),
    "retention_days": Row("`succeeded`, `attempted` and the origins of values forget earlier", _is_lowered, Change.WIDER),
    **dict.fromkeys(("jwt_secret", "jwks_url", "jwt_audience", "jwt_issuer", "oidc_issuer", "oidc_client_id"), _SIGN_IN),
    "oidc_scope": OPERATION,
    "jwt_max_hours": WIDER("a bearer token may be valid for longer"),
    "allow_http": Row("keys and tokens may be read over plain http", _appears, Change.WIDER),
    "auditors": Row(_AUDITORS.why, _has_more),
    "auditor_claim": _AUDITORS,
    "operators": Row("others may end a stop", _has_more),
    **dict.fromkeys(("log_read_url", "database_connections", "listen_url", "log_origin", "log_signing_keys"), OPERATION),
    **dict.fromkeys(("log_witnesses", "otel", "disclosure", "public_url", "page_name", "page_logo"), OPERATION),
    **dict.fromkeys(("webhook_url", "webhook_secret", "webhook_texts", "allow_model_storage"), OPERATION),
    **dict.fromkeys(
        ("model", "gemini_api_key", "gemini_model", "gemini_base_url", "openai_api_key", "openai_model", "openai_base_url"),
        Row("a model only asks for calls"),
    ),
}
