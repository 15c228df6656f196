"""POST /api/replay and /api/replay/flows: run recorded decisions again, as server-sent events; and the file of one decision.

start    {"total": 50}
report   {"message": "...", "recorded": {...}, "decision_id": "...", "identical": false, "differences": [...], "steps": [...]}
flows    {"items": [{"decision_id": "...", "message": "", "before": "runs", "after": "asks", "tool_name": "...", "shadow": []}]}
trial    {"decisions": 50, "ended_early": 0, "rules": {"no milk": {"asked": 0, "refused": 2, "by_user": {"ann": 2}, ...}}}
end      {"total": 50}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import Field
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.bodies import MAX_RULES_BYTES, IdInPath, RulesText, errors, invalid, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.decisions import filters_of, log_of, restricted_to_caller
from graph_agent.api.services import services
from graph_agent.api.sse import EventStream, event, stream_route
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import DecisionPage, LogQueryService
from graph_agent.audit.trace import LoggedDecision
from graph_agent.bootstrap.proof_files import proof_files
from graph_agent.bootstrap.record_tree import seal_if_possible
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.toolbox import conditions_from
from graph_agent.chat.service import well_formed_id
from graph_agent.errors import ConfigurationError, ConstitutionError, no_closed_decision
from graph_agent.models.base import Frozen
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import RecordStatus, ShadowedCall
from graph_agent.net.bearer_tokens import Caller
from graph_agent.policy.constitution import Constitution
from graph_agent.replays.replayer import WhatIf
from graph_agent.replays.sources import LoadedRecord, load_from_log
from graph_agent.suggestions.trial import RecordedShadows, Trial
from graph_agent.words.outcomes import Ending, kind_of_ending, words_of_ending, words_of_type
from graph_agent.words.rules import SHADOW_WORDS

router = APIRouter(prefix="/api", tags=["replay"])

MAX_STREAMS = 8
"""The number of requests that are served at the same time; they share the worker processes."""
MAX_DECISIONS = 500
MAX_FLOWS = 10_000
_PAGE = 500
_MESSAGE_CHARACTERS = 200
"""The part of a message that identifies a decision in a list."""
_CALL_CHARACTERS = 300
_FLUSH_SECONDS = 0.1
"""Flows are sent together this often: an event for each would take the page longer than the replay."""
_TRIAL_SECONDS = 1.0
"""The figures of the trial are sent this often: each time whole."""
_MOST = 20
"""The tools and users that are named in the figures of a rule."""


class OtherRules(Frozen):
    """The rules to decide by; those that are left out are the recorded ones."""

    constitution: RulesText | None = Field(default=None, description="The text of another constitution to decide by.")
    conditions: RulesText | None = Field(default=None, description="Other conditions in Cedar to decide by.")


class ReplayRequest(DecisionFilter):
    """The decisions to run again: the last ones that match the filters, or the one with `decision_id`."""

    rules: OtherRules = OtherRules()
    last: int = Field(default=20, ge=1, le=MAX_DECISIONS)


class FlowsRequest(ReplayRequest):
    """The decisions whose flow to other rules is asked."""

    last: int = Field(default=500, ge=1, le=MAX_FLOWS)


_ERRORS = errors(401, 403, 404, 413, 415, 422, 503)


@router.post(
    "/replay",
    **stream_route("start, a report of each decision, and end or error.", ["start", "report", "end"], _ERRORS, ReplayRequest),
)
async def replay(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run decisions again from their records, the newest first, and stream a report of each. Nothing is called or changed.

    The replay ends when the client disconnects.
    """
    return await _replay(request, caller, await read_model(request, ReplayRequest, MAX_RULES_BYTES), flow_only=False)


@router.post(
    "/replay/flows",
    **stream_route(
        "start, the flows of several decisions each time, the trial of the rules in the shadow, and end or error.",
        ["start", "flows", "trial", "end"],
        _ERRORS,
        FlowsRequest,
    ),
)
async def flows(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run decisions again, the newest first, and stream the flow of their calls from the recorded to the other rules.

    The trial says of each rule in the shadow of these rules which calls it would have decided otherwise. The replay ends when
    the client disconnects.
    """
    return await _replay(request, caller, await read_model(request, FlowsRequest, MAX_RULES_BYTES), flow_only=True)


@router.post(
    "/decisions/{decision_id}/proof",
    response_class=Response,
    responses={
        200: {"content": {"text/html": {"schema": {"type": "string"}}}},
        **errors(400, 401, 403, 404, 413, 415, 422, 503),
    },
    openapi_extra=json_body(OtherRules),
)
async def saved_proof(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> HTMLResponse:
    """Return the `decision.html` of `log export --proof`, which shows what other rules would have decided if they are given."""
    asked = await read_model(request, OtherRules, MAX_RULES_BYTES)
    decision_id, state = well_formed_id(decision_id), services(request)
    runtime = state.runtime

    async def replay_by_others(recorded: LoadedRecord) -> dict[str, Any]:
        replayed = await state.replays.replay(recorded, await _what_if(runtime, asked))
        rules = {"the other constitution": asked.constitution, "the other conditions": asked.conditions}
        return {**replayed, "rules": {name: text for name, text in rules.items() if text is not None}, "steps": []}

    what_if = None if asked == OtherRules() else replay_by_others
    await seal_if_possible(runtime.tree)
    files = await proof_files(runtime.database, runtime.tree, decision_id, user_id=caller.reads, what_if=what_if)
    return HTMLResponse(files["decision.html"])


async def _what_if(runtime: Runtime, asked: OtherRules) -> WhatIf:
    if asked.constitution is not None:
        try:
            Constitution.parse(asked.constitution)
        except ConstitutionError as exc:
            raise invalid(str(exc)) from None
    file = None
    if asked.conditions is not None:
        servers = (await runtime.engine.prepare()).policy.servers
        file = conditions_from(asked.conditions, runtime.settings, servers)
    return WhatIf(asked.constitution, file)


async def _replay(request: Request, caller: Caller, asked: ReplayRequest, *, flow_only: bool) -> Response:
    state = services(request)
    runtime = state.runtime
    what_if = await _what_if(runtime, asked.rules)
    filters, log = restricted_to_caller(filters_of(asked), caller), log_of(request)
    page = await log.query_decisions(filters, limit=min(asked.last, _PAGE))
    if asked.decision_id is not None and not any(row.status is not RecordStatus.PENDING for row in page.items):
        raise no_closed_decision()
    messages: dict[str, str] = {}

    async def sources() -> AsyncIterator[LoadedRecord]:
        async for row in _closed(log, filters, page, asked.last):
            messages[row.decision_id] = row.message
            yield await load_from_log(runtime.database, row.decision_id)

    replays = state.replays.replay_all(sources(), what_if, flow_only=flow_only)
    total = min(asked.last, page.total)
    if flow_only:
        shadows = RecordedShadows() if what_if.conditions is None else None
        events = _flows(total, replays, messages, Trial(await _shadow_rules(runtime, what_if)), shadows)
    else:
        events = _reports(total, replays, messages)
    return EventStream(events, state.replay_streams, caller.user_id)


def _said(call: ShadowedCall) -> dict[str, Any]:
    """Return a call with the words of each verdict on it."""
    return {**call._asdict(), "said": [SHADOW_WORDS[decision] for _, decision in call.verdicts]}


async def _shadow_rules(runtime: Runtime, what_if: WhatIf) -> list[str]:
    """Return the names of the rules in the shadow of the other conditions, or else of those in force."""
    policy = (await runtime.engine.prepare()).policy
    if what_if.conditions is not None:
        try:
            policy = policy.with_conditions(what_if.conditions)
        except ConfigurationError:
            # Each replay says why they cannot be used.
            return []
    return [] if policy.conditions is None else [one.name for one in policy.conditions.described() if one.shadow]


async def _closed(
    log: LogQueryService, filters: DecisionFilter, page: DecisionPage, left: int
) -> AsyncIterator[LoggedDecision]:
    """Yield the closed ones of the last decisions, `left` at most, that match the filters; `page` is the first page of them."""
    while page.items:
        for row in page.items[:left]:
            if row.status is not RecordStatus.PENDING:
                yield row
        left -= len(page.items)
        if left <= 0 or not page.has_more:
            return
        page = await log.query_decisions(filters, limit=min(left, _PAGE), before=page.items[-1].decision_id)


_Replays = AsyncGenerator[tuple[LoadedRecord, dict[str, Any]]]


async def _reports(expected: int, replays: _Replays, messages: dict[str, str]) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of replays; `messages` has the message of each decision whose replay has begun."""
    yield event("start", {"total": expected})
    total = identical = 0
    # Closed at once if the client disconnects, so that the queued replays are dropped.
    async with aclosing(replays):
        async for found, report in replays:
            total += 1
            identical += report["identical"]
            recorded = None
            if found.record is not None:
                decision = found.record.decision
                recorded = {"states": found.record.states, "decision": decision.to_json(), **_ending(decision)}
            replayed = None if report["decision"] is None else AgentDecision.model_validate(report["decision"])
            yield event("report", {"message": messages.pop(found.name), "recorded": recorded, **report, **_ending(replayed)})
    yield event("end", {"total": total, "identical": identical})


def _ending(decision: AgentDecision | None) -> dict[str, str]:
    """Return the type of a decision and how it came out, in words."""
    if decision is None:
        return {}
    ending = Ending.of(decision)
    words = {"type_words": words_of_type(ending.decision_type), "ending": words_of_ending(ending)}
    return {**words, "ending_kind": kind_of_ending(ending)}


async def _flows(
    expected: int, replays: _Replays, messages: dict[str, str], trial: Trial, shadows: RecordedShadows | None
) -> AsyncIterator[ServerSentEvent]:
    """Yield the flows of replays, as `_reports` their reports, and what `trial` counts of them.

    `shadows` finds the rules that each decision was recorded with; None if all are replayed by the same other conditions.
    """
    yield event("start", {"total": expected})
    items: list[dict[str, Any]] = []
    now = asyncio.get_running_loop().time
    sent, counted = 0.0, now()
    async with aclosing(replays):
        async for found, flow in replays:
            calls = [ShadowedCall(**{**call, "call": call["call"][:_CALL_CHARACTERS]}) for call in flow.pop("shadow")]
            header = None if found.record is None else found.record.header
            had = None if shadows is None else (header and shadows.of(header, found.texts)) or ()
            user_id = "" if header is None else header.context.user_id
            trial.add_what_if(found.name, user_id, calls, flow.pop("ended_early"), had)
            message = messages.pop(found.name)[:_MESSAGE_CHARACTERS]
            items.append({"decision_id": found.name, "message": message, **flow, "shadow": list(map(_said, calls))})
            if now() - sent >= _FLUSH_SECONDS:
                yield event("flows", {"items": items})
                items, sent = [], now()
            if now() - counted >= _TRIAL_SECONDS:
                yield event("trial", _figures(trial))
                counted = now()
    yield event("flows", {"items": items})
    yield event("trial", _figures(trial))
    yield event("end", {"total": trial.decisions})


def _figures(trial: Trial) -> dict[str, Any]:
    rules = {name: one.to_json(_MOST) for name, one in trial.rules.items()}
    return {"decisions": trial.decisions, "ended_early": len(trial.differing), "rules": rules}
