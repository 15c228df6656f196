"""The data of a result, from which facts are taken."""

from __future__ import annotations

import json
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.models.nesting import is_deeper_than
from graph_agent.models.result_size import LEFT_OUT
from graph_agent.models.tools import ContentKind, ToolResult
from graph_agent.models.unique_keys import unique_keys
from graph_agent.policy.fact_errors import UnreadableError

_MAX_DEPTH: Final = 64
"""The number of lists and objects inside one another that a text of JSON may have; structured content has at most 255."""


def whole_data(result: ToolResult, *, is_text: bool | None = None) -> Any:
    """Return the data of a result. Without structured content it is the JSON of a text. Raises `UnreadableError`."""
    data = result.data
    if isinstance(data, dict) and LEFT_OUT in data:
        raise UnreadableError("its result is too large to be read whole")
    if is_text is None:
        kinds = {item.kind for item in result.content}
        is_text = ContentKind.TEXT in kinds and ContentKind.STRUCTURED not in kinds
    if not is_text or not isinstance(data, dict) or data.keys() != {"text"} or not isinstance(data["text"], str):
        return data
    try:
        found = json.loads(data["text"], object_pairs_hook=unique_keys, parse_constant=_no_constant)
        # A number beyond those of JSON, or half of a character: no record could have it.
        canonical_json(found).encode()
    except (ValueError, RecursionError):
        return data
    if is_deeper_than(found, _MAX_DEPTH):
        return data
    # A list or a simple value has the form in which servers with structured content send it.
    return found if isinstance(found, dict) else {"result": found}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
