"""The writer of cases: a decision of the log, with the earlier turns of its conversation, as a case that expects it again.

A conversation with the shipped task server becomes a case that starts with the tasks that there were. A conversation with other
tools becomes one that plays them: it has their declarations, and the recorded results and previews.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import yaml

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import digest
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.record import DecisionRecord, EntryKind, ToolInvocation
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.cedar.fact_values import by_path
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.reply.text import visible
from graph_agent.tools.played import PlayedResult, PlayedTool
from graph_agent.turn.recorder import call_digest
from graph_agent.validation.fixtures import USER, Fixture, FixtureTask, FixtureTurn

_MAX_TURNS = 20
"""The number of turns in a case; earlier turns of the conversation are left out."""


class _Dumper(yaml.SafeDumper):
    """A dumper that escapes a text with hidden characters, and writes any other text as it is."""

    def analyze_scalar(self, scalar: str) -> Any:
        # Called before each text is written. YAML itself calls bidi controls printable.
        self.allow_unicode = visible(scalar) == scalar
        return super().analyze_scalar(scalar)


def dump_fixtures(fixtures: Sequence[Fixture]) -> str:
    """Return the cases as YAML that `load_fixtures` reads."""
    return yaml.dump([_to_yaml_value(fixture) for fixture in fixtures], Dumper=_Dumper, sort_keys=False, width=120)


async def fixture_from_log(
    log: LogQueryService, decision_id: str, *, task_tools: Collection[ToolDeclaration] = (), user_id: str | None = None
) -> Fixture:
    """Create a case from a decision and the earlier turns of its conversation.

    `task_tools` are the declarations of the shipped task server: turns that had only these need not play them. Raises
    `ServiceError` DECISION_NOT_FOUND, also if the turn is still running, or if `user_id` is given and is not its user.
    """
    record = (await log.get_decision_trace(decision_id, user_id=user_id)).record
    if record is None:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The decision is still open.")
    context = record.header.context
    filters = DecisionFilter.of(
        conversation_id=context.conversation_id, user_id=context.user_id, until=record.header.started_at
    )
    before = (await log.query_decisions(filters, limit=_MAX_TURNS - 1)).items
    earlier = [(await log.get_decision_trace(row.decision_id)).record for row in reversed(before)]
    records = [*(one for one in earlier if one is not None), record]
    texts = await log.texts({name for one in records for name in one.header.digests.values()})
    tools = recorded_tools(records, texts)
    if all(tool.declaration in task_tools for tool in tools):
        return fixture_from_records(records)
    return fixture_from_records(records, tools=tools, texts=texts)


def fixture_from_records(
    records: Sequence[DecisionRecord],
    test_id: str | None = None,
    *,
    tools: Sequence[PlayedTool] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Fixture:
    """Create a case from a logged conversation: its turns, oldest first, each of which expects the recorded decision.

    With `tools` it plays them, with the recorded results. `texts` has the texts of the headers by digest: they say which
    arguments are the signed-in user, who is another one in each run of the case, and what was read for conditions. Otherwise
    its `tasks` are those of the first tool result with a list of tasks, except for the ones created during the conversation.
    """
    turns = []
    previous_end = None
    for record in records:
        decision = record.decision
        waited = 0.0 if previous_end is None else (record.header.started_at - previous_end).total_seconds() / 60
        given: dict[str, Any] = {"minutes_later": round(waited, 2)} if waited >= 1 else {}
        if tools is not None:
            given |= {name: played for name, played in _played(record, texts or {}).items() if played}
        calls = [invocation.tool_name for invocation in record.invocations]
        turns.append(
            FixtureTurn(
                input=record.header.context.message,
                **given,
                expected_intent=decision.intent.intent_type if decision.intent else None,
                expected_tool=calls[0] if len(calls) == 1 else calls or None,
                expected_outcome=decision.outcome_category.value if decision.outcome_category else None,
            )
        )
        previous_end = record.ended_at
    name = test_id or f"decision-{records[-1].header.decision_id}"
    if tools is not None:
        return Fixture(test_id=name, turns=turns, tools=list(tools))
    return Fixture(test_id=name, turns=turns, tasks=_tasks_before(records))


def recorded_tools(records: Iterable[DecisionRecord], texts: Mapping[str, str]) -> list[PlayedTool]:
    """Return the tools that the records name, as they were last declared; `texts` has the texts of their headers by digest."""
    found = {}
    for record in records:
        header = record.header
        conditions = json.loads(texts.get(header.conditions or "", "{}"))
        for tool in json.loads(texts.get(header.tools, "[]")):
            if (declared := tool.get("declaration")) is not None:
                traits = ToolTraits.model_validate(tool["traits"]).model_dump(mode="json", exclude_defaults=True)
                server = conditions.get("servers", {}).get(declared["name"])
                named = {} if server is None else {"server": server}
                found[declared["name"]] = PlayedTool.model_validate({**declared, "traits": traits, **named})
    return list(found.values())


def bound_arguments(constitution: str) -> dict[str, str]:
    """Return the argument of each tool that the text of a constitution binds to the signed-in user."""
    grants = Constitution.parse(constitution).grants
    return {grant.name: grant.bound_argument for grant in grants if grant.bound_argument is not None}


def _played(record: DecisionRecord, texts: Mapping[str, str]) -> dict[str, list[Any]]:
    bound = bound_arguments(texts[record.header.constitution])
    return {"results": list(_results(record, bound)), "reads": list(_reads(record, bound, texts))}


def _results(record: DecisionRecord, bound: Mapping[str, str]) -> Iterable[PlayedResult]:
    """Yield the previews of a turn, and the result of each call that it sent, after its settlement or repetition."""
    context = record.header.context
    keys = [] if context.pending_confirmation is None else [context.pending_confirmation.id]
    user = context.user_id

    def played(call: ToolInvocation, result: Any, **more: Any) -> PlayedResult:
        known = ToolResult.model_validate(result).replace(duration_ms=0).model_dump(mode="json", exclude_defaults=True)
        arguments = _of_any_user(call.parameters, [bound.get(call.tool_name)])
        return PlayedResult.model_validate({"tool": call.tool_name, "arguments": arguments, **more, "result": known})

    previewed = {digest([call.tool_name, call.parameters]): call for call in record.invocations}
    for entry in record.entries:
        if entry.kind is EntryKind.PREVIEW and entry.request in previewed:
            yield played(previewed[entry.request], entry.result, preview=True)
    for call in record.invocations:
        operations = [*keys, f"{record.header.decision_id}:{call.sequence}"]
        requests = {call_digest(call.tool_name, call.parameters, user, key) for key in operations}
        sent = [one for one in record.entries if one.kind in (EntryKind.EXECUTE, EntryKind.SETTLE) and one.request in requests]
        if sent:
            yield played(call, sent[-1].result)


def _reads(record: DecisionRecord, bound: Mapping[str, str], texts: Mapping[str, str]) -> Iterable[FactRead]:
    """Yield the reads that the runtime made for calls, with their facts by path."""
    entries = [one for one in record.entries if one.kind is EntryKind.READ]
    if not entries:
        return
    conditions = PolicySnapshot.from_texts(texts, record.header.digests).policy.conditions
    declared = None if conditions is None else conditions.results
    for entry in entries:
        # Which call it follows is the place where it is played.
        read = FactRead.recorded(entry.result).replace(after=None)
        users = [bound.get(read.tool), *(() if declared is None else declared.filled_by_user(read.tool))]
        yield by_path(declared, read.replace(arguments=_of_any_user(read.arguments, users)))


def _of_any_user(arguments: Mapping[str, Any], users: Collection[str | None]) -> dict[str, Any]:
    """Return arguments with `USER` for those that are the user."""
    return {name: USER if name in users else value for name, value in arguments.items()}


def _tasks_before(records: Sequence[DecisionRecord]) -> list[FixtureTask]:
    started = records[0].header.started_at.isoformat()
    for invocation in (invocation for record in records for invocation in record.invocations):
        listed = invocation.result.get("tasks") if isinstance(invocation.result, dict) else None
        if isinstance(listed, list):
            return list(_tasks_at(started, listed))
    return []


def _tasks_at(time: str, listed: list[Any]) -> Iterable[FixtureTask]:
    """Yield the tasks of a listing as they were at an earlier time; ISO 8601 texts in UTC sort like times."""
    for task in listed:
        if not isinstance(task, dict) or not isinstance(task.get("description"), str) or not task["description"]:
            continue
        if str(task.get("created_at") or "") >= time:
            continue
        done = task.get("status") == "completed" and str(task.get("completed_at") or "") < time
        yield FixtureTask(description=task["description"], status="completed" if done else "pending")


def _to_yaml_value(fixture: Fixture) -> dict[str, Any]:
    value = fixture.model_dump(mode="json", exclude_unset=True)
    tasks = [task.description if task.status == "pending" else task.to_json() for task in fixture.tasks]
    tools = {} if fixture.tools is None else {"tools": value["tools"]}
    return {
        "test_id": fixture.test_id,
        **({"tasks": tasks} if tasks else {}),
        **tools,
        **(value["turns"][0] if len(fixture.turns) == 1 else {"turns": value["turns"]}),
        **{name: value[name] for name in ("expected_tasks", "script") if value.get(name) is not None},
    }
