"""Which decisions a command is about: the options, and the filter they make."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graph_agent.cli.running import Run, opened, settings_now, wrong_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graph_agent.audit.filters import DecisionFilter
    from graph_agent.audit.queries import LogQueryService
    from graph_agent.db import Database

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,5})([mhdw])")

OfUser = Annotated[str | None, typer.Option("--user", metavar="ID", help="Of this user.", show_default=False)]
OfConversation = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="Of this conversation.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="From this time on: ISO 8601, or how long ago, 30m, 24h, 7d.", show_default=False
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this time.", show_default=False)]
OfType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Of this decision type.", show_default=False)]
OfOutcome = Annotated[
    str | None,
    typer.Option("--outcome", metavar="OUTCOME", help="Of this outcome, or beginning so: ERROR.", show_default=False),
]
OfIntent = Annotated[str | None, typer.Option("--intent", metavar="INTENT", help="Of this intent.", show_default=False)]
OfStatus = Annotated[
    str | None, typer.Option("--status", metavar="STATUS", help="PENDING, completed or interrupted.", show_default=False)
]
ByModel = Annotated[str | None, typer.Option("--by-model", metavar="NAME", help="Made by this model.", show_default=False)]


def chosen(**given: Any) -> DecisionFilter:
    """The filter of the options that were given. Raises `ServiceError` VALIDATION_ERROR."""
    from graph_agent.audit.filters import DecisionFilter

    times = {name: moment(given[name]) for name in ("since", "until") if given.get(name) is not None}
    return DecisionFilter.of(**{**{name: value for name, value in given.items() if value is not None}, **times})


def moment(text: str) -> datetime:
    """A time as people write it; one without a zone is UTC."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        told = datetime.fromisoformat(text.strip())
    except ValueError:
        wrong_usage(f"'{text}' is no time: write 2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 30m, 24h, 7d")
    return told if told.tzinfo is not None else told.replace(tzinfo=UTC)


@contextmanager
def opened_log() -> Iterator[tuple[Database, Run[Any]]]:
    """The log database, tables up to date."""
    settings = settings_now()
    from graph_agent.bootstrap import open_stores

    with opened(open_stores(settings)) as (stores, run):
        yield stores.log, run


@contextmanager
def opened_queries() -> Iterator[tuple[LogQueryService, Run[Any]]]:
    """The log, to be asked."""
    with opened_log() as (database, run):
        from graph_agent.audit.queries import LogQueryService

        yield LogQueryService(database, seconds=60), run
