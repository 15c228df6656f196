"""The compiled conditions of a file. Cedar is loaded only if there is such a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.facts import Fact

if TYPE_CHECKING:
    # Only named in signatures, because Cedar belongs to an extra.
    from graph_agent.policy.cedar.evaluation import CedarConditions

Conditions: TypeAlias = "CedarConditions"


def compile_conditions(
    file: ConditionsFile, actions: Sequence[ToolAction], facts: Mapping[str, Fact], recorded: str | None = None
) -> Conditions:
    """Return the conditions of `file` for these tools and facts. `recorded` is the text of a record that they come from.

    Raises `ConfigurationError` if the conditions cannot be read, or if the extra is not installed.
    """
    try:
        # Imported here, because the library is an extra, and most installations have no such file.
        from graph_agent.policy.cedar.evaluation import CedarConditions
    except ModuleNotFoundError as exc:
        needed = "needs the extra 'policy': pip install 'graph-agent[policy]'"
        raise ConfigurationError(f"the conditions file {file.name} {needed}") from exc
    return CedarConditions(file, actions, recorded, facts=facts)
