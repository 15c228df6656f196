"""Calls, results and the constitution that the tests of the invariants share."""

from __future__ import annotations

from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.policy.constitution import Constitution
from tests.invariants.checks import CONFIRMED_TOOL, TASK
from tests.scripted_turns import done, failed

CONSTITUTION = Constitution.load().text

ADD = ("add_task", {"description": "call mom"})
DELETE = (CONFIRMED_TOOL, {"task_id": TASK})
LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})

DONE = done({"receipt": "did it"})
UNKNOWN = failed(ToolErrorCode.TIMEOUT_ERROR, "no answer in time")
VOIDED = failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "it was voided")
PREVIEWS = {CONFIRMED_TOOL: done({"description": "call mom"})}
