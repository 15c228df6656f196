"""The options that select decisions, the filter that they build, and the log that it is applied to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from inspect import Parameter
from typing import Annotated, Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import option, replace_parameter
from graph_agent.cli.running import Run, open_in_loop, wrong_usage
from graph_agent.db import Database
from graph_agent.settings import read_settings

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,5})([mhdw])")

_OPTIONS: Mapping[str, tuple[str, str | None, str]] = {
    "decision_id": ("--id", "DECISION_ID", "Select only this decision."),
    "user_id": ("--user", "ID", "Select decisions of this user."),
    "conversation_id": ("--conversation", "ID", "Select decisions of this conversation."),
    "since": ("--since", "TIME", "Select from this time on: ISO 8601, or an age such as 30m, 24h, 7d."),
    "until": ("--until", "TIME", "Select before this time."),
    "decision_type": ("--type", "TYPE", "Select this decision type."),
    "outcome": ("--outcome", "OUTCOME", "Select this outcome, or a prefix of it: ERROR."),
    "intent_type": ("--intent", "INTENT", "Select this intent."),
    "status": ("--status", "STATUS", "Select this status: PENDING, completed or interrupted."),
    "model": ("--by-model", "NAME", "Select decisions for which this model was requested."),
    "response_model": ("--response-model", "NAME", "Select decisions that this model answered."),
    "refused": ("--refused", None, "Select decisions with a tool call that code refused."),
}
"""Field of `DecisionFilter` -> the option that sets it: flag, metavar (None for an option without a value) and help."""


def filter_by(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter `filters`.

    On the command line the parameter is replaced by the options for `fields`, by default all but the id; the command gets the
    `DecisionFilter` that they build. Invalid values raise `ServiceError` VALIDATION_ERROR.
    """
    chosen = fields or tuple(field for field in _OPTIONS if field != "decision_id")
    return replace_parameter("filters", _filter, [_option(field) for field in chosen])


def _option(field: str) -> Parameter:
    flag, metavar, text = _OPTIONS[field]
    kind: Any = bool if metavar is None else str
    # The prefix keeps the names apart from the other parameters of a command, such as `model`.
    annotation: Any = Annotated[kind | None, option(flag, metavar, text)]
    return Parameter(f"by_{field}", Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _filter(**values: Any) -> DecisionFilter:
    given = {name.removeprefix("by_"): value for name, value in values.items() if value is not None}
    for field in given.keys() & {"since", "until"}:
        given[field] = parse_time(given[field])
    return DecisionFilter.of(**given)


def parse_time(text: str) -> datetime:
    """Parse a point in time; without a time zone it is UTC."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        wrong_usage(f"'{text}' is not a time: write 2026-01-31, 2026-01-31T12:00:00Z, or an age: 30m, 24h, 7d")
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


@contextmanager
def open_log(*, writes: bool = False) -> Iterator[tuple[Database, Run]]:
    """Open the database and migrate its tables. A command that only reads gets the replica of the log, if there is one."""
    settings = read_settings()
    with open_in_loop(open_stores(settings)) as (stores, run):
        yield (stores.database if writes else stores.log_reads), run


@contextmanager
def open_queries() -> Iterator[tuple[LogQueryService, Run]]:
    """Open the log for queries."""
    with open_log() as (database, run):
        yield LogQueryService(database, seconds=60), run
