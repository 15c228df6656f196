"""POST /api/rules and /api/rules/diff: a constitution and conditions as rows of tools, and what they newly permit.

Nothing of it is put into force.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.analysis.process import analyze
from graph_agent.api.bodies import MAX_RULES_BYTES, RulesText, errors, invalid, json_body, read_model
from graph_agent.api.callers import Auditor, AuthenticatedCaller
from graph_agent.api.services import services
from graph_agent.api.sse import EventStream, event, stream_route
from graph_agent.bootstrap.rule_settings import DatabaseRules
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.toolbox import conditions_from
from graph_agent.errors import ConfigurationError
from graph_agent.models.base import Frozen
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import Constitution, grant_line
from graph_agent.policy.constitution_edits import ToolLine, with_limit, with_tool, without_tool
from graph_agent.policy.tool_rule import EffectProof
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.words.reasons import NOT_SERVED
from graph_agent.words.rules import PROOF_WORDS

router = APIRouter(prefix="/api", tags=["rules"])

MAX_ANALYSES = 2
"""The number of analyses at the same time: each is a process that computes."""
PROMISES = "promises.cedar"
"""The file beside the conditions whose promises are checked, unless the request has others."""
_CONNECT_SECONDS = 10.0


class RulesRequest(Frozen):
    """The texts to try; those that are left out are the ones in force."""

    constitution: RulesText | None = None
    conditions: RulesText | None = Field(default=None, description="The text of a `policy.cedar`.")


class DiffRequest(RulesRequest):
    """The texts to compare with those in force."""

    promises: RulesText | None = Field(default=None, description="`forbid` conditions that no accepted call may match.")


Verdict = Literal["runs", "asks", "refused"]


class RowRequest(RulesRequest):
    """The texts, and what the row of a tool is to say in the constitution. What is left out stays."""

    tool: str
    verdict: Verdict | None = None
    max_per_message: int | None = Field(default=None, ge=1, le=999, description="null for no limit.")


class ConditionRow(Frozen):
    """A condition that is about a tool."""

    name: str
    line: int
    number: int
    """Its place among the conditions of the text, from 0."""
    effect: str
    shadow: bool
    """True if it is judged, and decides nothing."""


class ToolRow(Frozen):
    """The rules of one tool."""

    name: str
    line: int | None
    """Its line in the constitution, from 1; None if it is not listed there."""
    verdict: Verdict
    """The verdict of the constitution; the conditions restrict it."""
    why: str | None
    """Why it is refused."""
    max_per_message: int | None
    proof: EffectProof | None
    """The way to learn the outcome of a change whose answer was lost; None for a read, and for a tool without a rule."""
    proof_word: str
    """The same in one word, and `proof_meaning` as a sentence; empty without one."""
    proof_meaning: str
    conditions: list[ConditionRow]


class RulesProblem(Frozen):
    """Why a text cannot be used: one sentence."""

    text: Literal["constitution", "conditions"]
    message: str


class Rules(Frozen):
    """The texts and the rows that they make; no rows if one of the texts cannot be used."""

    constitution: str
    conditions: str | None
    promises: str | None
    tools: list[ToolRow]
    problem: RulesProblem | None


@router.post("/rules", responses=errors(401, 403, 413, 415, 422, 503), openapi_extra=json_body(RulesRequest))
async def rules(request: Request, caller: AuthenticatedCaller) -> Rules:  # noqa: ARG001 (only callers may ask)
    """Return the rows of a constitution and conditions, or the sentence that says why they cannot be used."""
    asked = await read_model(request, RulesRequest, MAX_RULES_BYTES)
    state = services(request)
    if asked == RulesRequest():
        # A client that reads the rules in force is about to try others on the last decisions.
        state.replays.prepare()
    return await _rules(state.runtime, asked)


@router.post("/rules/row", responses=errors(401, 403, 413, 415, 422, 503), openapi_extra=json_body(RowRequest))
async def change_row(request: Request, caller: AuthenticatedCaller) -> Rules:  # noqa: ARG001 (only callers may ask)
    """Write what the row of a tool is to say into its line of the constitution, and return the texts with their rows."""
    asked = await read_model(request, RowRequest, MAX_RULES_BYTES)
    runtime = services(request).runtime
    original = (await runtime.engine.prepare()).policy.constitution.text
    try:
        text = _edited(runtime, asked, original)
    except ConfigurationError as exc:
        raise invalid(_UnusableError("constitution", exc).problem.message) from None
    return await _rules(runtime, RulesRequest(constitution=text, conditions=asked.conditions))


def _edited(runtime: Runtime, asked: RowRequest, original: str) -> str:
    """Return the constitution with the row of the tool as asked. Raises `ConfigurationError`."""
    text = asked.constitution or original
    if asked.verdict == "refused":
        return without_tool(text, asked.tool)
    if asked.verdict is not None:
        traits = runtime.tools.traits(asked.tool)
        line = ToolLine(asked.tool, grant_line(asked.tool, traits.title or asked.tool), _needs_marker(traits))
        text = with_tool(text, line, original, asks=asked.verdict == "asks")
    return with_limit(text, asked.tool, asked.max_per_message) if "max_per_message" in asked.model_fields_set else text


def _needs_marker(traits: ToolTraits) -> bool:
    return traits.destructive is not False and not traits.read_only


async def _rules(runtime: Runtime, asked: RulesRequest) -> Rules:
    in_force = (await runtime.engine.prepare()).policy
    texts: Any = {
        "constitution": asked.constitution or in_force.constitution.text,
        "conditions": asked.conditions or _conditions_text(in_force),
        "promises": _promises(runtime),
    }
    try:
        policy = await _policy(runtime, asked, in_force)
    except _UnusableError as exc:
        return Rules(**texts, tools=[], problem=exc.problem)
    return Rules(**texts, tools=_rows(runtime, policy), problem=None)


@router.post("/rules/diff", **stream_route("report or error.", ["report"], errors(401, 403, 413, 415, 422, 503), DiffRequest))
async def diff(request: Request, caller: Auditor) -> Response:
    """Analyze which calls become possible, or are no longer possible, and which promises hold, each with an example.

    The analysis covers every possible call. It ends when the client disconnects.
    """
    asked = await read_model(request, DiffRequest, MAX_RULES_BYTES)
    state = services(request)
    snapshot = await state.runtime.engine.prepare()
    try:
        policy = await _policy(state.runtime, asked, snapshot.policy)
    except _UnusableError as exc:
        raise invalid(exc.problem.message) from None
    changed = replace(snapshot, policy=policy)
    text = asked.promises or _promises(state.runtime)
    promises = None if text is None else conditions_from(text, state.runtime.settings, {}, PROMISES)

    async def report() -> AsyncIterator[ServerSentEvent]:
        yield event("report", await analyze(snapshot, changed, promises))

    return EventStream(report(), state.analyses, caller.user_id)


class _UnusableError(Exception):
    def __init__(self, text: Literal["constitution", "conditions"], cause: ConfigurationError) -> None:
        sentence = str(cause)
        self.problem = RulesProblem(text=text, message=f"{sentence[:1].upper()}{sentence[1:]}.")


async def _policy(runtime: Runtime, asked: RulesRequest, in_force: CompiledPolicy) -> CompiledPolicy:
    """Compile the texts for the tools that are served now."""
    policy = in_force
    try:
        if asked.constitution is not None:
            constitution = Constitution.parse(asked.constitution)
            policy = await ServedPolicy(constitution, runtime.tools, seconds=_CONNECT_SECONDS).current()
    except ConfigurationError as exc:
        raise _UnusableError("constitution", exc) from None
    text = asked.conditions or _conditions_text(in_force)
    if text is None:
        return policy
    try:
        policy = policy.with_conditions(conditions_from(text, runtime.settings, policy.servers))
        assert policy.conditions is not None
        policy.conditions.require_valid()
    except ConfigurationError as exc:
        raise _UnusableError("conditions", exc) from None
    return policy


def _conditions_text(policy: CompiledPolicy) -> str | None:
    return None if policy.conditions is None else policy.conditions.file.text


def _promises(runtime: Runtime) -> str | None:
    if isinstance(runtime.settings, DatabaseRules):
        return runtime.settings.rule_set.parts.get("promises")
    file = runtime.settings.conditions
    beside = None if file is None else file.with_name(PROMISES)
    return beside.read_text(encoding="utf-8") if beside is not None and beside.is_file() else None


def _rows(runtime: Runtime, policy: CompiledPolicy) -> list[ToolRow]:
    """Return a row for each listed tool, in the order of the constitution, and then for each that is only served."""
    described = [] if policy.conditions is None else policy.conditions.described()
    rows = []
    grants = {grant.name: grant for grant in policy.constitution.grants}
    for tool in [*grants, *(one.name for one in runtime.tools.declarations() if one.name not in grants)]:
        grant, rule = grants.get(tool), policy.rules.get(tool)
        about = [
            ConditionRow(name=one.name, line=one.line, number=one.number, effect=one.effect, shadow=one.shadow)
            for one in described
            if tool in one.tools
        ]
        why = None
        if grant is None:
            why = "not in the constitution"
        elif rule is None:
            why = policy.unavailable.get(tool, "not served") or NOT_SERVED
        elif described and not any(one.effect == "permit" for one in about):
            why = "no condition permits it"
        asks = grant is not None and grant.requires_confirmation
        proof = None if rule is None else rule.proof
        word, meaning = ("", "") if proof is None else PROOF_WORDS[proof]
        rows.append(
            ToolRow(
                name=tool,
                line=None if grant is None else grant.line,
                verdict="refused" if why is not None else "asks" if asks else "runs",
                why=why,
                max_per_message=None if grant is None else grant.max_per_message,
                proof=proof,
                proof_word=word,
                proof_meaning=meaning,
                conditions=[one for one in about if one.effect == "forbid"],
            )
        )
    return rows
