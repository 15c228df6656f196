"""The options that select decisions, and the filter that they build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.running import Run, open_in_loop, wrong_usage
from graph_agent.db import Database
from graph_agent.settings import read_settings

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,5})([mhdw])")


def _option(flag: str, metavar: str, help_text: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_text, show_default=False)


UserFilter = Annotated[str | None, _option("--user", "ID", "Select decisions of this user.")]
ConversationFilter = Annotated[str | None, _option("--conversation", "ID", "Select decisions of this conversation.")]
Since = Annotated[str | None, _option("--since", "TIME", "Select from this time on: ISO 8601, or an age such as 30m, 24h, 7d.")]
Until = Annotated[str | None, _option("--until", "TIME", "Select before this time.")]
TypeFilter = Annotated[str | None, _option("--type", "TYPE", "Select this decision type.")]
OutcomeFilter = Annotated[str | None, _option("--outcome", "OUTCOME", "Select this outcome, or a prefix of it: ERROR.")]
IntentFilter = Annotated[str | None, _option("--intent", "INTENT", "Select this intent.")]
StatusFilter = Annotated[str | None, _option("--status", "STATUS", "Select this status: PENDING, completed or interrupted.")]
ModelFilter = Annotated[str | None, _option("--by-model", "NAME", "Select decisions of this model.")]
ResponseModelFilter = Annotated[str | None, _option("--response-model", "NAME", "Select decisions that this model answered.")]


def build_filter(**given: Any) -> DecisionFilter:
    """Return the filter for the given options. Raises `ServiceError` VALIDATION_ERROR."""
    times = {name: parse_time(given[name]) for name in ("since", "until") if given.get(name) is not None}
    return DecisionFilter.of(**{**{name: value for name, value in given.items() if value is not None}, **times})


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
def open_log() -> Iterator[tuple[Database, Run[Any]]]:
    """Open the log database and migrate its tables."""
    settings = read_settings()
    with open_in_loop(open_stores(settings)) as (stores, run):
        yield stores.log, run


@contextmanager
def open_queries() -> Iterator[tuple[LogQueryService, Run[Any]]]:
    """Open the log for queries."""
    with open_log() as (database, run):
        yield LogQueryService(database, seconds=60), run
