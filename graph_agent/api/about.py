"""GET /api/about: what this server is for, from its constitution and its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from fastapi import APIRouter, Request

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.schemas import errors
from graph_agent.api.services import services
from graph_agent.errors import ConfigurationError
from graph_agent.models.base import Frozen
from graph_agent.policy.allowed_tools import ALLOWED_TOOLS
from graph_agent.policy.rules import ToolRule

router = APIRouter(prefix="/api", tags=["topology"])

_VIEWS = ("chat", "decisions", "replay", "behavior")
_HEADING = re.compile(r"^# +(?!constitution\b)(\S.*?) *$", re.IGNORECASE | re.MULTILINE)
_ROLE = re.compile(r"\bYou are (?:an? |the )?([^.,;:\n]{3,80})")


class About(Frozen):
    """The title, examples and views that a client can show before the first message."""

    title: str
    examples: list[str]
    """Two messages that change nothing."""
    views: list[str]
    """The views that make sense with these tools; `tasks` is the task list beside the chat."""
    disclosure: str | None
    """The line that says that one talks to an AI; None if it is switched off."""


@router.get("/about", responses=errors(401, 403, 503))
async def about(request: Request, caller: AuthenticatedCaller) -> About:  # noqa: ARG001 (only callers may ask)
    """Return a title, two examples that change nothing, and the views that make sense here."""
    runtime = services(request).runtime
    engine = runtime.engine
    rules: Iterable[ToolRule] = ()
    # Without its tools a server can still say what it is for.
    with suppress(ConfigurationError):
        rules = (await engine.prepare()).policy.rules.values()
    has_tasks = set(engine.constitution.whitelist) >= ALLOWED_TOOLS
    reading = "show my tasks" if has_tasks else _reading_example(rules)
    views = [*_VIEWS, *(["tasks"] if has_tasks else [])]
    return About(
        title=_title(engine.constitution.text),
        examples=[reading, "what can you do?"],
        views=views,
        disclosure=runtime.settings.disclosed,
    )


def _title(constitution: str) -> str:
    """Return the heading of the constitution, or the role that it gives to the model."""
    found = _HEADING.search(constitution) or _ROLE.search(constitution)
    return found[1][:1].upper() + found[1][1:] if found else "graph_agent"


def _reading_example(rules: Iterable[ToolRule]) -> str:
    """Return the action of a tool that only reads, if possible of one that needs no arguments."""
    reading = [rule for rule in rules if not rule.mutating]
    best = min(reading, key=lambda rule: len(rule.declaration.parameters.get("required", ())), default=None)
    return "what do I have to confirm?" if best is None else best.title
