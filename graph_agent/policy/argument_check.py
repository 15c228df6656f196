"""Arguments against a stranger's schema, in bounded time whatever either of them is.

Expressions are searched for by an automaton; what needs backtracking (lookarounds, back references) may do so only so often,
and then counts as not matching. Steps are counted, not seconds: a replay has to come to the same verdict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from graph_agent.policy.closing import MOST_LOOKS, Schema, SchemaRefusedError

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
MAX_ARGUMENT_DEPTH: Final = 5

_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000, size_limit=1 << 20, dfa_size_limit=1 << 20)


@dataclass(frozen=True, slots=True)
class Slip:
    """The first thing that is wrong with arguments."""

    keyword: str
    where: str
    """The path to it, by slashes; empty for the arguments themselves."""


class ArgumentCheck:
    """A schema and its closed copy, ready. Raises `SchemaRefusedError` for a text that arguments cannot be checked against."""

    def __init__(self, text: str) -> None:
        if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
            raise SchemaRefusedError("is too large")
        try:
            original = json.loads(text)
        except RecursionError:
            raise SchemaRefusedError("is too deep") from None
        if _too_deep(original):
            raise SchemaRefusedError("is too deep")
        if not isinstance(original, dict):
            raise SchemaRefusedError("is not valid JSON Schema")
        try:
            draft = jsonschema_rs.validator_cls_for(original)
        except (jsonschema_rs.ValidationError, ValueError):
            draft = jsonschema_rs.Draft202012Validator
        first = _compiled(draft, original)
        schema = Schema(original)
        if schema.looks(MAX_ARGUMENT_DEPTH) > MOST_LOOKS:
            raise SchemaRefusedError("looks at one value too often")
        self._validators = (first, _compiled(jsonschema_rs.Draft202012Validator, schema.closed()))

    def slip(self, arguments: dict[str, Any]) -> Slip | None:
        """What is wrong with `arguments`, or None."""
        for validator in self._validators:
            error = next(iter(validator.iter_errors(arguments)), None)
            if error is not None:
                return Slip(error.kind.name, "/".join(str(step) for step in error.instance_path))
        return None


def _compiled(draft: Any, schema: dict[str, Any]) -> Any:
    try:
        return draft(schema, validate_formats=False, offline=True, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as exc:
        raise SchemaRefusedError("is not valid JSON Schema, or refers to what is not in it") from exc


def _too_deep(value: Any, left: int = MAX_SCHEMA_DEPTH) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left < 0 or any(_too_deep(part, left - 1) for part in parts)
