"""The guard's permission for one call, for tests of tool servers below the engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import SECTION, Constitution, grant_line
from tests.judging import judge_batch

_ANY = {"type": "object", "additionalProperties": True}


def permitted(name: str, arguments: dict[str, Any], user_id: str = "ann", key: str | None = None) -> AuthorizedCall:
    """Return permission for a call with any arguments: with a `key` for a change, else for a read."""
    constitution = Constitution.parse(f"{SECTION}\n{grant_line(name, 'x', '(reads)' if key is None else '')}\n")
    declared = [ToolDeclaration(name=name, description="x", parameters=_ANY)]
    traits = ToolTraits(ledger=key is not None, read_only=key is None)
    confirmed = PendingAction(
        id=key or "none", tool_name=name, arguments=arguments, description="x", created_at=datetime(2026, 1, 5, tzinfo=UTC)
    )  # type: ignore[call-arg]  # the expiry is filled in
    (judgement,) = judge_batch(
        [FunctionCall(name=name, arguments=arguments)],
        policy=compile_policy(constitution, declared, {name: traits}),
        user_id=user_id,
        decision_id="d",
        max_calls_per_turn=1,
        confirmed=confirmed,
    )
    assert judgement.authorized is not None, judgement
    return judgement.authorized
