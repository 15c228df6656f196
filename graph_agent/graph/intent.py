"""The user's intent, derived from the calls that the model requested. Only the shipped tools have an intent."""

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


def read_intent(decision_type: DecisionType, requested: Sequence[ToolCall], *, answered: bool) -> UserIntent | None:
    """Return the intent behind the `requested` calls of a turn, including one that waits for confirmation.

    A list that was only looked up before a change is not an intent of its own. Returns None if a tool has no known intent, and
    for a turn that was not `answered` by the model or by the user's yes or no.
    """
    if decision_type in _DECISION_INTENTS and not (requested and decision_type is DecisionType.RESPOND_ONLY):
        return UserIntent(intent_type=_DECISION_INTENTS[decision_type]) if answered else None
    kinds = [_TOOL_INTENTS.get(call.tool_name) for call in requested]
    if not kinds or None in kinds:
        return None
    changes = {kind for kind in kinds if kind is not IntentType.LIST_TASKS}
    if len(changes) > 1:
        return UserIntent(intent_type=IntentType.MULTI_INTENT)
    intent = next(iter(changes), None) or IntentType.LIST_TASKS
    # The parameters of the last such call: after a correction ("no, oat milk") it is the one that the user meant.
    last = max(index for index, kind in enumerate(kinds) if kind is intent)
    return UserIntent(intent_type=intent, extracted_params=requested[last].parameters)
