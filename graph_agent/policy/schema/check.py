"""Arguments against a stranger's schema, in bounded time whatever either of them is.

Expressions are searched for by an automaton, which cannot backtrack, and what a schema may ask of one value is bounded before
it is used. Steps are counted, not seconds: a replay has to come to the same verdict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError, meta

from graph_agent.models.canonical import canonical_json
from graph_agent.policy.schema.strict import Schema, SchemaRefusedError

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
MAX_ARGUMENT_BYTES: Final = 16 * 1024
MAX_ARGUMENT_DEPTH: Final = 5
MAX_STEPS: Final = 20_000_000
"""Of one check, at worst: schemas that look at a value, times bytes of the arguments. Around 50 ns each."""

_SMALL_ARGUMENTS: Final = 256
"""Bytes. A schema that cannot even be asked about so little is refused."""
_AUTOMATA: Final = {1 << 14: 20, 1 << 16: 80, 1 << 18: 320, 1 << 20: 1280}
"""Bytes an automaton may have, and as how many schemas a search with it counts: at worst it goes by size."""


class UncheckedError(Exception):
    """Checking these arguments could take too long."""


@dataclass(frozen=True, slots=True)
class Slip:
    """The first thing that is wrong with arguments."""

    keyword: str
    where: str
    """The path to it, by slashes; empty for the arguments themselves."""


class ArgumentCheck:
    """A schema, open and closed, ready. Raises `SchemaRefusedError` for a text that arguments cannot be checked against."""

    def __init__(self, text: str) -> None:
        original = _read(text)
        if not _is_schema(original):
            raise SchemaRefusedError("is not valid JSON Schema")
        schema = Schema(original)
        closed = schema.closed()
        # Below the last level stand single values, which a schema is soon done with.
        self._cost = max(each.cost(MAX_ARGUMENT_DEPTH - 1, _price) for each in (schema, Schema(closed)))
        if self._cost * _SMALL_ARGUMENTS > MAX_STEPS:
            raise SchemaRefusedError("asks too much of one value")
        self._validators = (_compiled(schema.root), _compiled(closed))

    def slip(self, arguments: dict[str, Any]) -> Slip | None:
        """What is wrong with `arguments`, of at most `MAX_ARGUMENT_BYTES`, or None. Raises `UncheckedError`."""
        if self._cost * MAX_ARGUMENT_BYTES > MAX_STEPS and self._cost * len(canonical_json(arguments)) > MAX_STEPS:
            raise UncheckedError
        for validator in self._validators:
            error = next(iter(validator.iter_errors(arguments)), None)
            if error is not None:
                return Slip(error.kind.name, "/".join(str(step) for step in error.instance_path))
        return None


def _read(text: str) -> Any:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        raise SchemaRefusedError("is too large")
    try:
        schema = json.loads(text)
    except RecursionError:
        schema = None
    if schema is None or _too_deep(schema):
        raise SchemaRefusedError("is too deep")
    return schema


def _is_schema(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    try:
        return meta.is_valid(schema)
    except (ValidationError, ValueError):
        # It names a draft that nobody knows: then it is read as the current one, which is what MCP says.
        return meta.is_valid({keyword: value for keyword, value in schema.items() if keyword != "$schema"})


def _compiled(schema: dict[str, Any]) -> Draft202012Validator:
    largest = RegexOptions(size_limit=max(_AUTOMATA), dfa_size_limit=1 << 20)
    try:
        return Draft202012Validator(schema, validate_formats=False, offline=True, pattern_options=largest)
    except (ValidationError, ReferencingError, ValueError) as exc:
        raise SchemaRefusedError("is not valid JSON Schema, or refers to what is not in it") from exc


@lru_cache(maxsize=1024)
def _price(pattern: str) -> int:
    for size, price in _AUTOMATA.items():
        options = RegexOptions(size_limit=size, dfa_size_limit=1 << 20)
        try:
            Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)
        except (ValidationError, ValueError):
            continue
        return price
    raise SchemaRefusedError("has a pattern that cannot be searched for in bounded time")


def _too_deep(value: Any, left: int = MAX_SCHEMA_DEPTH) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left < 0 or any(_too_deep(part, left - 1) for part in parts)
