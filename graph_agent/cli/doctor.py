"""`graph-agent doctor`: check everything that a turn needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import typer

from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.adapters import open_adapter, unserved_tools
from graph_agent.bootstrap.approvals import open_approvals
from graph_agent.bootstrap.database_rules import conditions_of
from graph_agent.bootstrap.policies import lost_answers
from graph_agent.bootstrap.record_tree import log_file, record_tree
from graph_agent.bootstrap.rule_sets import rule_set_of
from graph_agent.bootstrap.rule_settings import DatabaseRules, constitution_of
from graph_agent.bootstrap.rules_source import read_settings_in_force, settings_in_force
from graph_agent.bootstrap.secret import read_secrets, secret_file
from graph_agent.bootstrap.stored_rules import load_rules
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.bootstrap.toolbox import acting_as_users, served_policy, shared_identities
from graph_agent.chat.approval_rules import other_rules
from graph_agent.cli.options import Model, with_files
from graph_agent.cli.running import DONE, FAILED
from graph_agent.cli.show import print_text
from graph_agent.clock import SystemClock, turn_deadline
from graph_agent.db import Database
from graph_agent.due.depth import find_depths, summary
from graph_agent.errors import ConfigurationError, GraphAgentError, ServiceError
from graph_agent.llm.endpoint_check import check_endpoint
from graph_agent.llm.provider_adapter import ProviderAdapter
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.ports import LLMAdapter
from graph_agent.record.rule_sets import list_activations
from graph_agent.record.statements import read
from graph_agent.record.stops import find_open_stops
from graph_agent.reply.text import counted, visible
from graph_agent.settings import Settings, set_variables, unknown_variables

_WIDTH = 14
_SIX_MONTHS = 183
_NAMED = 3
_COMPARED_RULES = 100
"""The activations that are searched for rules that came back."""
"""The requests that are named."""
_OTHER_MODELS = (
    "for another one set GEMINI_API_KEY, or use --model openai with OPENAI_MODEL and OPENAI_API_KEY or OPENAI_BASE_URL "
    "(Ollama, vLLM, llama.cpp)"
)


@with_files()
def doctor(model: Model = None, *, settings: Settings) -> None:
    """Check settings, model, constitution, database, log, retention, tools, approvals, due work, key and endpoint.

    The endpoint gets the request of a turn, with the constitution and all tools, to find out whether its model can call them.
    Exits with 1 if a check fails.
    """
    with suppress(GraphAgentError):  # which the check of the rules, or of the key, reports
        settings = read_settings_in_force(settings)
    raise typer.Exit(DONE if asyncio.run(_run_checks(settings, model)) else FAILED)


@dataclass
class _Context:
    """The arguments of every check."""

    settings: Settings
    """With the activated rules, if there are any."""
    model: str | None
    stack: AsyncExitStack
    adapter: LLMAdapter | None = None
    stores: Stores | None = None
    """Set by the check that opens them, like the adapter."""
    policy: CompiledPolicy | None = None
    """The constitution with the tools that are served; set by the check of the tools."""

    @property
    def database(self) -> Database:
        """The opened database. Raises `ConfigurationError` if it could not be opened."""
        if self.stores is None:
            raise ConfigurationError("cannot be checked without a database")
        return self.stores.database


async def _run_checks(settings: Settings, model: str | None) -> bool:
    """Run every check and print its result. Return True if all of them pass."""
    healthy = True
    async with AsyncExitStack() as stack:
        context = _Context(settings, model, stack)
        for name, check in _CHECKS.items():
            try:
                style, verdict, text = "green", "ok", await check(context)
            except GraphAgentError as exc:
                healthy = False
                style, verdict, text = "red", "broken", str(exc)
            print_text((f"{name:<{_WIDTH}}", "dim"), (f"{verdict:<8}", style), visible(text))
    return healthy


async def _settings(_: _Context) -> str:
    if unknown := unknown_variables():
        raise ConfigurationError(f"no settings of this version, without effect: {', '.join(unknown)}")
    return ", ".join(set_variables()) or "none of the environment"


async def _model(context: _Context) -> str:
    adapter, reason = await context.stack.enter_async_context(open_adapter(context.settings, context.model))
    context.adapter = adapter
    if unserved_tools(adapter, context.settings) is not None:
        raise ConfigurationError(f"{reason}; {_OTHER_MODELS}")
    return f"{reason}; {_OTHER_MODELS}" if adapter.model == "embedded" else reason


async def _endpoint(context: _Context) -> str:
    if context.adapter is None:
        raise ConfigurationError("cannot be checked without a model")
    if not isinstance(context.adapter, ProviderAdapter):
        return "none needed"
    clock = SystemClock()
    policy = context.policy
    tools = () if policy is None else policy.declarations
    instruction = None if policy is None else policy.constitution.prompt
    with turn_deadline(clock, clock.monotonic() + context.settings.timeout_seconds):
        return await check_endpoint(context.adapter, instruction, tools)


async def _constitution(context: _Context) -> str:
    constitution = constitution_of(context.settings)
    confirmed = sum(grant.requires_confirmation for grant in constitution.grants)
    return f"{len(constitution.grants)} tools, {confirmed} with confirmation, SHA-256 {constitution.digest[:12]}"


async def _database(context: _Context) -> str:
    settings = context.settings
    context.stores = await context.stack.enter_async_context(open_stores(settings))
    text, database = _location(settings.database), context.stores.database
    if database.dialect == "postgresql":
        if await database.write(lambda connection: connection.exec_driver_sql("SHOW transaction_read_only").scalar()) == "on":
            raise ConfigurationError(f"{text}; it can only be read, as a standby or during a failover")
        skew = await database.skew(SystemClock())
        text += f"; this host's clock is {abs(skew):.1f} s {'behind' if skew < 0 else 'ahead of'} the database's"
    if not settings.log_read_url:
        return text
    try:
        await LogQueryService(context.stores.log_reads).query_decisions(limit=1)
    except ServiceError as exc:
        raise ConfigurationError("the replica of the log (LOG_READ_URL) cannot be queried; turns do not need it") from exc
    return f"{text}; queries: {_location(settings.log_read_url)}"


async def _log(context: _Context) -> str:
    settings, database = context.settings, context.database
    if not settings.log_signing_keys and not log_file(settings, "key").exists():
        return "none yet"
    tree = record_tree(settings, database, SystemClock())
    return f"{tree.keys.origin}, {await tree.require_continuation(ask_witnesses=True)} leaves"


async def _stops(context: _Context) -> str:
    found = await read(context.database, find_open_stops)
    return "; ".join(f"{stop.number}: {stop.what} since {stop.at:%Y-%m-%d %H:%M} UTC" for stop in found) or "nothing is stopped"


async def _rules(context: _Context) -> str:
    found = await read(context.database, partial(list_activations, limit=_COMPARED_RULES))
    if not found:
        return "none yet; the first decision brings them"
    settings = await settings_in_force(context.settings, context.database)
    last, rule_set = await load_rules(context.database)
    files = settings.files if isinstance(settings, DatabaseRules) else settings
    of_files = rule_set_of(files, constitution_of(files), conditions_of(files))
    # The files have no promises, and without a lock file an activation has pinned the tools.
    differing = [name for name in of_files.differences(rule_set) if name in of_files.parts or name not in ("promises", "lock")]
    here = f"the files here differ in {', '.join(differing)}" if differing else "the files here are those"
    if last.kind.binds:
        text = f"{last.number} ({last.digest[:12]}), {last.kind} {last.at:%Y-%m-%d %H:%M} UTC by {last.by or last.host}; {here}"
        return f"{text}, which has no effect" if differing else text
    yesterday = SystemClock().now() - timedelta(days=1)
    returned = [
        one
        for place, one in enumerate(found)
        if one.at > yesterday and any(old.digest == one.digest for old in found[place + 1 :])
    ]
    if returned:
        hosts = ", ".join(sorted({one.host for one in returned}))
        here += f"; earlier ones came back {counted(len(returned), 'time')} within a day, from {hosts}: do two processes have "
        here += "different files? `graph-agent rules list`"
    return f"{last.number} ({last.digest[:12]}), since {last.at:%Y-%m-%d %H:%M} UTC; {here}"


async def _retention(context: _Context) -> str:
    days = context.settings.retention_days
    hint = f"; high-risk uses (EU AI Act) need six months: GRAPH_AGENT_RETENTION_DAYS={_SIX_MONTHS}"
    return f"decisions are kept for {days} days{hint if days < _SIX_MONTHS else ''}"


async def _tools(context: _Context) -> str:
    policy, problems = await served_policy(context.settings, context.database)
    context.policy = policy
    unconfirmed = [name for name, rule in policy.rules.items() if rule.mutating and not rule.grant.requires_confirmation]
    shared = shared_identities(context.settings)
    identity = f"; one identity for all users: {', '.join(shared)}" if shared else ""
    if acting := acting_as_users(context.settings):
        identity += f"; only for signed-in users, with their own rights: {', '.join(acting)}"
    reasons = (f"{name} ({why})" for name, why in sorted(policy.unavailable.items()))
    unavailable = f"; unavailable: {', '.join(reasons)}" if policy.unavailable else ""
    text = f"{', '.join(policy.rules)}; write without confirmation: {', '.join(unconfirmed) or 'none'}{identity}{unavailable}"
    if problems:
        raise ConfigurationError("; ".join([*problems, text]))
    return text


async def _effects(context: _Context) -> str:
    if context.policy is None:
        raise ConfigurationError("cannot be checked without the tools")
    return lost_answers(context.policy)


async def _approvals(context: _Context) -> str:
    if context.stores is None or context.policy is None:
        raise ConfigurationError("cannot be checked without the database and the tools")
    if context.settings.secret is None and not secret_file(context.settings).exists():
        return "none yet"
    store = open_approvals(context.settings, context.stores.database, "")
    if changed := await store.count_changed():
        raise ConfigurationError(f"{counted(changed, 'open request')} changed by hand, or written with another key: ignored")
    waiting = [one for one in await store.list_open() if one.is_open]
    others = [one.request for one in waiting if other_rules(one.request, context.policy, store.evidence)]
    if not others:
        return f"{counted(len(waiting), 'request')} open"
    why = sorted({name for one in others for name in other_rules(one, context.policy, store.evidence)})
    asked = f"{len(others)} of them asked where {', '.join(why)} differ, and made only if the earlier rules permit it too"
    return f"{counted(len(waiting), 'request')} open, {asked}: {', '.join(one.id for one in others[:_NAMED])}"


async def _due(context: _Context) -> str:
    return summary(await context.database.read(partial(find_depths, context.database)))


async def _key(context: _Context) -> str:
    if context.settings.secret is not None:
        return "GRAPH_AGENT_SECRET"
    path = secret_file(context.settings)
    try:
        read_secrets(path)
    except FileNotFoundError:
        return f"none yet; the first turn makes {path}"
    return f"{path}, for its owner only"


def _location(url: str) -> str:
    """Return the file of a SQLite database, or the name of another kind of database: the rest of its URL may be secret."""
    scheme, _, rest = url.partition("://")
    return rest.removeprefix("/") if scheme.startswith("sqlite") else scheme.partition("+")[0]


_CHECKS: dict[str, Callable[[_Context], Awaitable[str]]] = {
    "settings": _settings,
    "model": _model,
    "constitution": _constitution,
    "database": _database,
    "log": _log,
    "stops": _stops,
    "rules": _rules,
    "retention": _retention,
    "tools": _tools,
    "effects": _effects,
    "approvals": _approvals,
    "due": _due,
    "key": _key,
    "endpoint": _endpoint,
}
"""In the order in which a start needs them: the tools need the database, and the endpoint gets the tools."""
