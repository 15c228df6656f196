"""The sources of the arguments of a closed turn's calls: as recorded, or found again, if no condition has read it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from graph_agent.db import Database
from graph_agent.errors import GraphAgentError
from graph_agent.graph.build import shipped_graph
from graph_agent.graph.step import Step
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind
from graph_agent.models.sources import BatchSources, CallSources, EarlierCalls, ReadCall
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.sources import SourceFinder
from graph_agent.record.earlier_results import find_results
from graph_agent.record.statements import read
from graph_agent.replays.ports import PlaybackRecorder
from graph_agent.replays.sources import LoadedRecord
from graph_agent.words.origins import describe_source

ArgumentSources = dict[str, list[str]]
"""The sources of each argument of a call, in words."""

_log = logging.getLogger(__name__)


async def earlier_calls(database: Database, record: DecisionRecord) -> EarlierCalls:
    """Return the calls of the turns before this one in its conversation. Raises `ServiceError`."""
    header = record.header
    found, definitions = await read(
        database,
        lambda connection: find_results(
            connection, header.context.user_id, header.context.conversation_id, header.decision_id, before=header.started_at
        ),
    )
    return EarlierCalls(found, sorted({call.tool_name for call in found}), definitions)


async def argument_sources(database: Database, loaded: LoadedRecord) -> dict[int, ArgumentSources]:
    """Return the sources of a decision's calls by their sequence, as far as this version can walk the record."""
    record = loaded.record
    if record is None or not record.states:
        return {}
    steps: list[Step] = []
    try:
        snapshot = PolicySnapshot.from_texts(loaded.texts, record.header.digests)
        async for step in PlaybackRecorder(record, snapshot).replay(shipped_graph()):
            steps.append(step)  # noqa: PERF401 (the steps before a failure are kept)
    except (GraphAgentError, LookupError, ValueError) as exc:
        _log.warning("decision %s cannot be walked again", record.header.decision_id, exc_info=exc)
        if not steps:
            return {}
    return sources_in_words(record, steps, snapshot.policy, await earlier_calls(database, record))


def sources_in_words(
    record: DecisionRecord, steps: Sequence[Step], policy: CompiledPolicy, earlier: EarlierCalls
) -> dict[int, ArgumentSources]:
    """Return the sources of the calls that were requested in `steps`, by their sequence."""
    finder, found = SourceFinder(record.header.context, policy, earlier), dict[int, ArgumentSources]()
    for step in steps:
        calls = step.turn.calls[len(step.before.calls) :]
        if not calls:
            continue
        recorded = next((entry.result for entry in step.entries if entry.kind is EntryKind.SOURCES), None)
        if recorded is None:
            sent = [call for call in step.before.calls if call.disposition is CallDisposition.EXECUTED]
            made = [ReadCall(call.call.name, call.arguments, call.result) for call in sent]
            batch = finder.sources([call.call for call in calls], made)
        else:
            batch = BatchSources.model_validate(recorded)
        found |= {call.sequence: _in_words(policy, one) for call, one in zip(calls, batch.calls, strict=False)}
    return found


def _in_words(policy: CompiledPolicy, sources: CallSources) -> ArgumentSources:
    described = {name: [describe_source(policy, one) for one in given] for name, given in sources.arguments.items()}
    return {name: list(dict.fromkeys(given)) for name, given in described.items()}
