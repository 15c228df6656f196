"""A `ToolServer` over an executor that has only `execute`, the one method that the engine contract requires.

Such an executor does not say which tools only read: of the documented tools it is known, of others the constitution says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.llm.adapter_call import AdapterCall, as_declaration, is_documented_read
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.constitution import ToolGrant
from graph_agent.ports import ContractMethod, ToolExecutor
from graph_agent.tools.played import ANY_ARGUMENTS


class PlainExecutor:
    """Adds to an executor what the engine needs of a server. The executor has no ledger and no previews."""

    def __init__(self, executor: ToolExecutor, grants: Sequence[ToolGrant], adapter: AdapterCall) -> None:
        """`adapter` declares the granted tools that the executor does not declare itself."""
        self._executor = executor
        self._grants = grants
        self._adapter = adapter
        required = ("tool_name", "parameters", "user_id")
        self._execute = ContractMethod(executor, "execute", required, ("operation_key", "deadline"))

    async def start(self) -> bool:
        return True

    def get_available_tools(self) -> list[str]:
        """Return the names that the executor lists; all granted ones if it has no list."""
        listing = getattr(self._executor, "get_available_tools", None)
        return [grant.name for grant in self._grants] if listing is None else list(listing())

    def declarations(self) -> list[ToolDeclaration]:
        """Return a declaration of each granted tool: the executor's own, the adapter's, or one that accepts any arguments."""
        return self._declared

    @cached_property
    def _declared(self) -> list[ToolDeclaration]:
        if (declare := getattr(self._executor, "declarations", None)) is not None:
            return [as_declaration(tool) for tool in declare()]
        served = self.get_available_tools()
        declared = {tool.name: tool for tool in self._adapter.declarations(served)}
        return [
            declared.get(grant.name) or ToolDeclaration(name=grant.name, description=grant.title, parameters=ANY_ARGUMENTS)
            for grant in self._grants
            if grant.name in served
        ]

    def traits(self, tool_name: str) -> ToolTraits:
        """Return what the executor says of a tool, if it has a method `traits`; of the documented ones it is known."""
        if (declare := getattr(self._executor, "traits", None)) is not None:
            declared: ToolTraits = declare(tool_name)
            return declared
        return ToolTraits(read_only=True) if is_documented_read(tool_name) else ToolTraits()

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        result: ToolResult = await self._execute(
            tool_name=call.tool_name,
            parameters=call.arguments,
            user_id=call.user_id,
            operation_key=call.operation_key if call.mutating else None,
            deadline=deadline,
        )
        return result

    async def settle(self, *_: Any, **__: Any) -> ToolResult:
        """Return that the outcome is unknown: there is no ledger that could be asked."""
        return ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "no answer in time: it may or may not have been done")

    async def preview(self, *_: Any, **__: Any) -> ToolResult:
        """Return a failure: a turn that a server with previews began cannot be continued here."""
        return ToolResult(success=False, error="not started: the turn had ended")
