"""The policy for the tools that are served now: the constitution joined with the declarations of the tool servers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graph_agent.clock import run_with_timeout
from graph_agent.errors import ToolDefinitionError, ToolGrantError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.ports import ToolServer
from graph_agent.tools.played import PlayedTools
from graph_agent.tools.server_group import McpServerGroup

_log = logging.getLogger(__name__)

_UNUSABLE = "the definition of this tool by its server cannot be used"


@dataclass(eq=False, repr=False)
class ServedPolicy:
    """The current policy; it is compiled again when the served tools change."""

    constitution: Constitution
    tools: ToolServer
    seconds: float
    """The time limit of one attempt to connect."""
    allow_missing_tools: bool = False
    """A listed tool that is not served is left out."""
    conditions: ConditionsFile | None = None
    _policy: CompiledPolicy | None = field(default=None, init=False)
    _served: tuple[list[ToolDeclaration], bool] | None = field(default=None, init=False)
    """The declarations of `_policy`, and whether all servers answered."""
    _was_complete: bool = field(default=False, init=False)

    async def current(self) -> CompiledPolicy:
        """Return the policy for the tools that are served now: the same object until these change.

        Raises `ConfigurationError` if a server that answers has never served a listed tool, or if the line of a tool does not
        fit what its server declares. A tool whose definition cannot be used is unavailable, and the others continue.
        """
        complete = await self._servers_answer()
        served = self.tools.declarations()
        if self._policy is None or self._served != (served, complete):
            strict = complete and not self._was_complete
            self._policy = self._compile(served, strict=strict)
            # Without all tools, conditions about the missing ones would not fit; those that fail then refuse the call.
            if strict and self._policy.conditions is not None:
                self._policy.conditions.require_valid()
            self._served = (served, complete)
            self._was_complete |= complete
        return self._policy

    def _compile(self, served: Sequence[ToolDeclaration], *, strict: bool) -> CompiledPolicy:
        """Compile the policy for the `served` tools. Unless `strict`, what is missing is unavailable.

        The policy is strict once, when all servers answer for the first time: later a change of one server must not stop the
        others.
        """
        usable = {tool.name: tool for tool in served}
        group = self.tools if isinstance(self.tools, McpServerGroup) else None
        unusable = {} if group is None else {name: f"{_UNUSABLE}: {why}" for name, why in group.left_out().items()}
        reasons = unusable if group is None else {**unusable, **group.uncertain}
        while True:
            expected = [name for name in self.constitution.whitelist if not strict or name in unusable]
            missing = {name: reasons.get(name) for name in expected if name not in usable}
            traits = {name: self.tools.traits(name) for name in usable}
            try:
                policy = compile_policy(
                    self.constitution,
                    usable.values(),
                    traits,
                    partial=self.allow_missing_tools,
                    unavailable={} if self.allow_missing_tools else missing,
                    servers=self._servers(usable),
                )
                return policy if self.conditions is None else policy.with_conditions(self.conditions)
            except ToolDefinitionError as exc:
                if isinstance(exc, ToolGrantError):
                    if strict:
                        raise
                else:
                    unusable[exc.tool] = reasons[exc.tool] = f"{_UNUSABLE}: {exc}"
                _log.warning("the tool %s is unavailable: %s", exc.tool, exc)
                del usable[exc.tool]

    def _servers(self, names: Iterable[str]) -> dict[str, str]:
        """Return the server of each of these tools, as conditions see it; without those whose server has no name."""
        if isinstance(self.tools, PlayedTools):
            return dict(self.tools.servers)
        if not isinstance(self.tools, McpServerGroup):
            return {}
        claims = {name: self.tools.claims(name) for name in names}
        return {name: claim.server.name for name, claim in claims.items() if claim is not None}

    async def _servers_answer(self) -> bool:
        """Connect to the tool servers; False if one of them does not answer in time."""
        try:
            return await run_with_timeout(self.seconds, self.tools.start())
        except Exception as exc:
            _log.warning("a tool server could not be reached", exc_info=not isinstance(exc, TimeoutError))
            return False
