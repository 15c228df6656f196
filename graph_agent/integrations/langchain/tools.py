"""A tool executor for the tools of LangChain."""

from __future__ import annotations

import json
import logging
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from graph_agent.errors import ToolRefusal
from graph_agent.models.llm import NO_PARAMETERS, ToolDeclaration
from graph_agent.models.tools import ToolResult
from graph_agent.tools.functions import CHANGE_FAILED, FAILED, NOT_FOUND, result_of

_log = logging.getLogger(__name__)


class LangChainTools:
    """Runs any tools of LangChain, such as functions with `@tool`: the model sees their names, descriptions and schemas.

    A tool finds the signed-in user as `config["configurable"]["user_id"]`, and the operation key of a change beside it.
    """

    def __init__(self, *tools: BaseTool) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def declarations(self) -> list[ToolDeclaration]:
        """Return the declarations of all tools."""
        functions = [convert_to_openai_tool(tool)["function"] for tool in self._tools.values()]
        return [
            ToolDeclaration(function["name"], function.get("description", ""), function.get("parameters") or NO_PARAMETERS)
            for function in functions
        ]

    def get_available_tools(self) -> list[str]:
        return list(self._tools)

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,  # noqa: ARG002 (the engine has the time limit)
    ) -> ToolResult:
        """Run a tool. An exception is a failed call; that of a change, which has an operation key, may be half done."""
        tool = self._tools.get(tool_name)
        if tool is None:
            return NOT_FOUND
        # In this form a tool that handles its errors says that it has failed.
        call = {"type": "tool_call", "name": tool_name, "args": parameters, "id": operation_key or tool_name}
        config: RunnableConfig = {"configurable": {"user_id": user_id, "operation_key": operation_key}}
        try:
            returned = await tool.ainvoke(call, config)
            if isinstance(returned, ToolMessage) and returned.status != "error":
                return result_of(_value(returned.content))
            _log.error("the tool %s failed", tool_name)
        except ToolRefusal as refusal:
            return ToolResult.failed(refusal.code, refusal.sentence)
        except Exception as error:
            _log.error("the tool %s failed", tool_name, exc_info=error)
        return FAILED if operation_key is None else CHANGE_FAILED


def _value(content: Any) -> Any:
    """Return what a tool returned: LangChain writes an object or a list as JSON."""
    try:
        value = json.loads(content)
    except (TypeError, ValueError, RecursionError):
        return content
    return value if isinstance(value, dict | list) else content
