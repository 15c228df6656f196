"""The verdicts of another policy on recorded decisions, for `graph-agent policy diff --last`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graph_agent.audit.queries import LogQueryService
from graph_agent.models.record import RecordStatus
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.replays.flow import Flow
from graph_agent.replays.replayer import Replayer, WhatIf
from graph_agent.replays.sources import load_from_log

_NONE = ConditionsFile("permit (principal, action, resource);")
"""The conditions of a policy that has none, for a record that has some: a replay would keep those."""


async def decided_now(log: Any, policy: CompiledPolicy, last: int) -> Sequence[tuple[str, str]]:
    """Return the last recorded decisions that `policy` decides otherwise, newest first, each with what differs."""
    page = await LogQueryService(log).query_decisions(limit=last)
    conditions = None if policy.conditions is None else replace(policy.conditions.file, servers=policy.servers)
    replayer, found = Replayer(), []
    for row in page.items:
        if row.status is RecordStatus.PENDING:
            continue
        loaded = await load_from_log(log, row.decision_id)
        if loaded.record is not None:
            file = _NONE if conditions is None and loaded.record.header.conditions is not None else conditions
            report = await loaded.replay(replayer, WhatIf(policy.constitution.text, file))
            if not report.identical:
                flow = Flow.of(loaded.record, report)
                what = f"{flow.tool_name or 'decision'}: {flow.before} -> {flow.after}"
                found.append((row.decision_id, f"{what}, {flow.why}" if flow.why else what))
    return found
