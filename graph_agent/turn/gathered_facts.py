"""The facts of the log for conditions: the uses and calls of a user so far, and the newest results of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from graph_agent.models.decision import DecisionContext
from graph_agent.models.facts import Facts, PastUses, Selected, window_start
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.fact_values import selected_last
from graph_agent.record.audit_writer import AuditWriter


async def gather_facts(
    audit: AuditWriter,
    context: DecisionContext,
    decision_id: str,
    conditions: Conditions,
    now: datetime,
    *,
    interrupted: Callable[[], bool] = lambda: False,
) -> Facts:
    """Return what these conditions read, without the decision `decision_id`. Raises `RecordUnavailableError`.

    Once the turn is `interrupted` it sends nothing more, and the log may be what has interrupted it: the log is not asked.
    """
    past = PastUses()
    if (conditions.reads_windows or conditions.reads_calls) and not interrupted():
        since = window_start("day", now, conditions.file.time_zone) if conditions.reads_windows else None
        past = await audit.past_uses(context, decision_id, since, conditions.reads_calls)
    if conditions.results.last:
        last = {} if interrupted() else await _newest_results(audit, context, decision_id, conditions)
        past = replace(past, last=last)
    return conditions.facts(now, past)


async def _newest_results(
    audit: AuditWriter, context: DecisionContext, decision_id: str, conditions: Conditions
) -> dict[str, Selected]:
    """Return what facts have from the results of the conversation before this decision, by fact."""
    found = {}
    for fact in conditions.results.last:
        newest = await audit.newest_result(context, decision_id, fact.tools)
        if newest is not None:
            tool_name, data = newest
            action = conditions.actions.get(tool_name)
            # A row does not say whether the data was structured. A tool with a schema for it sends no text.
            is_text = action is None or action.output is None
            result = ToolResult(success=True, data=data)
            found[fact.name] = selected_last(conditions.results, fact, result, is_text=is_text)
    return found
