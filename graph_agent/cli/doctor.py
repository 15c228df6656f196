"""`graph-agent doctor`: whether everything is there that a turn needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from graph_agent.cli.running import FAILED, Model, settings_now
from graph_agent.cli.show import out, plain
from graph_agent.errors import ConfigurationError, GraphAgentError

if TYPE_CHECKING:
    from graph_agent.bootstrap import Stores
    from graph_agent.settings import Settings

_WIDTH = 14


def doctor(model: Model = None) -> None:
    """Check the model, its endpoint, the constitution, the databases, the tools and the key. Ends with 1 if one is broken."""
    if not asyncio.run(_examine(settings_now(), model)):
        raise typer.Exit(FAILED)


@dataclass
class _Patient:
    settings: Settings
    model: str | None
    stack: AsyncExitStack
    stores: Stores | None = None
    """Set by the check that opens them."""


async def _examine(settings: Settings, model: str | None) -> bool:
    """Make every check, print what each found, and say whether all is well."""
    console = out()
    well = True
    async with AsyncExitStack() as stack:
        patient = _Patient(settings, model, stack)
        for what, check in _CHECKS.items():
            try:
                style, verdict, told = "green", "ok", await check(patient)
            except GraphAgentError as exc:
                well = False
                style, verdict, told = "red", "broken", str(exc)
            console.print(Text.assemble((f"{what:<{_WIDTH}}", "dim"), (f"{verdict:<8}", style), plain(told)))
    return well


async def _model(patient: _Patient) -> str:
    from graph_agent.bootstrap import choose_model, model_name

    choice = choose_model(patient.settings, patient.model)
    name = model_name(patient.settings, choice)
    return f"{choice.kind} ({name}): {choice.reason}" if name else f"{choice.kind}: {choice.reason}"


async def _endpoint(patient: _Patient) -> str:
    from graph_agent.bootstrap import check_endpoint, choose_model

    choice = choose_model(patient.settings, patient.model)
    if wrong := await check_endpoint(patient.settings, choice):
        raise ConfigurationError(wrong)
    return "none needed" if choice.kind in ("rules", "scripted") else "answers"


async def _constitution(patient: _Patient) -> str:
    from graph_agent.policy.constitution import Constitution

    constitution = Constitution.load(patient.settings.constitution)
    confirmed = sum(grant.requires_confirmation for grant in constitution.grants)
    return f"{len(constitution.grants)} tools, {confirmed} with confirmation, SHA-256 {constitution.digest[:12]}"


async def _databases(patient: _Patient) -> str:
    from graph_agent.bootstrap import open_stores

    patient.stores = await patient.stack.enter_async_context(open_stores(patient.settings))
    return f"tasks: {_place(patient.settings.task_database)}; log: {_place(patient.settings.log_database)}"


async def _tools(patient: _Patient) -> str:
    from graph_agent.bootstrap import served_policy

    if patient.stores is None:
        raise ConfigurationError("cannot be checked without a database")
    policy = await served_policy(patient.settings, patient.stores.tasks)
    return ", ".join(policy.rules)


async def _key(patient: _Patient) -> str:
    from graph_agent.bootstrap import read_secret, secret_file

    if patient.settings.secret is not None:
        return "GRAPH_AGENT_SECRET"
    path = secret_file(patient.settings)
    try:
        read_secret(path)
    except FileNotFoundError:
        return f"none yet; the first turn makes {path}"
    return f"{path}, for its owner only"


def _place(url: str) -> str:
    """Where a database is, without anything of its URL that could be secret."""
    scheme, _, rest = url.partition("://")
    return rest.removeprefix("/") if scheme.startswith("sqlite") else scheme.partition("+")[0]


_CHECKS: dict[str, Callable[[_Patient], Awaitable[str]]] = {
    "model": _model,
    "endpoint": _endpoint,
    "constitution": _constitution,
    "databases": _databases,
    "tools": _tools,
    "key": _key,
}
"""In the order in which a start needs them; the tools need the databases."""
