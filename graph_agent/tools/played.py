"""A `ToolServer` that answers from given results and calls nothing: the fake of the port, and the tools of a test case."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import canonical_json
from graph_agent.models.facts import FactRead, KnownRead
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.record import FACT_READS
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.key_location import KeyPlace
from graph_agent.ports import SentCall

ANY_ARGUMENTS = {"type": "object", "additionalProperties": True}
"""The schema of a tool that nothing declares: its arguments cannot be checked."""

NO_RESULT = ToolResult.failed(ToolErrorCode.TOOL_UNAVAILABLE, "There is no result for this call; nothing was done.")
"""The answer to a call without a given result. It is a failure for certain, so that no turn takes it for a success."""
NO_SETTLEMENT = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")


class PlayedTool(Frozen):
    """A tool as its server declares it: what the model sees, and what the guard knows about it."""

    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: dict(ANY_ARGUMENTS))
    """The JSON Schema of the arguments; by default any object."""
    traits: ToolTraits = Field(default_factory=ToolTraits)
    server: str | None = None
    """The name of its server, which conditions can name."""

    @property
    def declaration(self) -> ToolDeclaration:
        return ToolDeclaration(name=self.name, description=self.description, parameters=self.parameters)


class PlayedResult(Frozen):
    """The result of one call with exactly these arguments, or, with `preview`, the preview of its target."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)
    preview: bool = False
    result: ToolResult


class PlayedTools:
    """Answers each call with the next result that was given for it.

    A call without a result fails, and is noted in `problems`: a test that looks at them cannot pass by an invented result.
    """

    def __init__(self, tools: Sequence[PlayedTool], results: Iterable[PlayedResult] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._declarations = [tool.declaration for tool in tools]
        self._results: defaultdict[tuple[bool, str], deque[ToolResult]] = defaultdict(deque)
        self._reads: defaultdict[str, deque[FactRead]] = defaultdict(deque)
        self.problems: list[str] = []
        """A sentence for each call that had no result."""
        self.play(results)

    def play(self, results: Iterable[PlayedResult], reads: Iterable[FactRead] = ()) -> None:
        """Answer from these results from now on, and no longer from earlier ones.

        `reads` answer those that the runtime makes for conditions; their facts are by the path in the result (`KnownRead`).
        """
        self._results.clear()
        self._reads.clear()
        for read in reads:
            self._reads[_call_text(read.tool, read.arguments)].append(read)
        for one in results:
            self._results[one.preview, _call_text(one.tool, one.arguments)].append(one.result)

    @property
    def servers(self) -> Mapping[str, str]:
        """The server of each tool that names one."""
        return {name: tool.server for name, tool in self._tools.items() if tool.server is not None}

    async def start(self) -> bool:
        return True

    def get_available_tools(self) -> list[str]:
        return list(self._tools)

    def declarations(self) -> list[ToolDeclaration]:
        return self._declarations

    def traits(self, tool_name: str) -> ToolTraits:
        return self._tools[tool_name].traits if tool_name in self._tools else ToolTraits()

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:  # noqa: ARG002 (of the port)
        """Return the next result of this call."""
        if call.sequence > FACT_READS and (given := self._reads[_call_text(call.tool_name, call.arguments)]):
            return KnownRead.of(given.popleft())
        hidden = {} if call.key is None else call.key.at(KeyPlace.ARGUMENT)
        return self._next(call.tool_name, {name: value for name, value in call.arguments.items() if name not in hidden})

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:  # noqa: ARG002 (of the port)
        """Return that the outcome stays unknown: no ledger is asked."""
        return NO_SETTLEMENT

    async def preview(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,  # noqa: ARG002 (of the port)
        *,
        deadline: float | None = None,  # noqa: ARG002 (of the port)
    ) -> ToolResult:
        """Return the next preview of this call."""
        return self._next(tool_name, parameters, preview=True)

    def _next(self, tool_name: str, arguments: dict[str, Any], *, preview: bool = False) -> ToolResult:
        call = _call_text(tool_name, arguments)
        if given := self._results[preview, call]:
            return given.popleft()
        wanted = "preview" if preview else "result"
        self.problems.append(f"the case has no {wanted} for {tool_name} {canonical_json(arguments)}")
        return NO_RESULT


def _call_text(tool_name: str, arguments: dict[str, Any]) -> str:
    return canonical_json([tool_name, arguments])
