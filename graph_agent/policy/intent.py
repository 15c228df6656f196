"""What the user wanted, read from what the model decided. The shipped tools' meaning is one table; other tools have none."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.models.decision import DecisionType, IntentType, UserIntent
from graph_agent.models.tools import ToolCall

_TOOL_INTENTS = {
    "add_task": IntentType.CREATE_TASK,
    "list_tasks": IntentType.LIST_TASKS,
    "update_task": IntentType.UPDATE_TASK,
    "complete_task": IntentType.COMPLETE_TASK,
    "delete_task": IntentType.DELETE_TASK,
}
_DECISION_INTENTS = {
    DecisionType.EXECUTE_PENDING: IntentType.CONFIRM_YES,
    DecisionType.CANCEL_PENDING: IntentType.CONFIRM_NO,
    DecisionType.ASK_CLARIFICATION: IntentType.AMBIGUOUS,
    DecisionType.RESPOND_ONLY: IntentType.GENERAL_CHAT,
}


def read_intent(decision_type: DecisionType, wishes: Sequence[ToolCall]) -> UserIntent | None:
    """The intent behind `wishes`: every call asked for in this turn, one held for confirmation included.

    A list that was looked up on the way to a change is not an intent of its own. None where a tool is not in the table.
    """
    if decision_type in _DECISION_INTENTS and not (wishes and decision_type is DecisionType.RESPOND_ONLY):
        return UserIntent(intent_type=_DECISION_INTENTS[decision_type], confidence=1.0)
    kinds = [_TOOL_INTENTS.get(wish.tool_name) for wish in wishes]
    if not kinds or None in kinds:
        return None
    distinct = {kind for kind in kinds if kind is not IntentType.LIST_TASKS}
    if len(distinct) > 1:
        return UserIntent(intent_type=IntentType.MULTI_INTENT, confidence=1.0)
    intent = next(iter(distinct), None) or IntentType.LIST_TASKS
    last = max(place for place, kind in enumerate(kinds) if kind is intent)
    return UserIntent(intent_type=intent, confidence=1.0, extracted_params=wishes[last].parameters)
