"""Arguments against a stranger's schema, in bounded time whatever either of them is.

`jsonschema` does the checking. Every keyword it evaluates is paid for out of a fixed purse, in about microseconds, and every
search out of the same; when the purse is empty the arguments count as unchecked. Counting instead of a clock, because a replay
has to come to the same verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator, ValidationError, validators

from graph_agent.policy.closing import ClosedCopy, SchemaRefusedError
from graph_agent.policy.linear_pattern import linear_pattern

MAX_SCHEMA_BYTES = 256 * 1024
PURSE = 500_000
"""About microseconds that one check may cost: no honest schema needs a tenth of it."""

_STEP = 20
_DRAFTS = ("draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/")

_Check = Callable[[Any, Any, Any, Any], Any]


class UncheckedError(Exception):
    """The arguments could not be checked within the purse."""


@dataclass(frozen=True, slots=True)
class Slip:
    """The first thing that is wrong with arguments."""

    keyword: str
    where: str
    """The path to it, by slashes; empty for the arguments themselves."""


@dataclass(slots=True)
class _Run:
    """One check under way."""

    targets: dict[str, Any]
    left: int = PURSE

    def pay(self, price: int) -> None:
        self.left -= price
        if self.left < 0:
            raise UncheckedError


_run: ContextVar[_Run] = ContextVar("argument_check")


class ArgumentCheck:
    """A schema, closed and ready. Raises `SchemaRefusedError` for a text that is no schema, or none that can be checked."""

    def __init__(self, schema: str) -> None:
        if len(schema.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
            raise SchemaRefusedError("is too large or too deep")
        try:
            original = json.loads(schema)
            _require_schema(original)
            copy = ClosedCopy(original)
        except RecursionError:
            raise SchemaRefusedError("is too large or too deep") from None
        self._targets = copy.targets
        self._validator = _Paying(copy.schema)

    def slip(self, arguments: dict[str, Any]) -> Slip | None:
        """What is wrong with `arguments`, or None. Raises where that cannot be found out: `UncheckedError`, RecursionError."""
        token = _run.set(_Run(self._targets))
        try:
            error = next(self._validator.iter_errors(arguments), None)
        finally:
            _run.reset(token)
        if error is None:
            return None
        # None is the keyword of the schema `false`.
        return Slip(str(error.validator or "not allowed"), "/".join(str(step) for step in error.absolute_path))


def _require_schema(schema: Any) -> None:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not (isinstance(named, str) and any(draft in named for draft in _DRAFTS)):
        # No draft that is known: it is read as the current one, which is what MCP says.
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        valid = jsonschema_rs.meta.is_valid(schema)
    except ValueError as exc:
        raise SchemaRefusedError("is too large or too deep") from exc
    if not valid:
        raise SchemaRefusedError("is not valid JSON Schema")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 (one shape)
    if isinstance(instance, str) and not _found(pattern, instance):
        yield ValidationError("no match")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if isinstance(instance, dict):
        for pattern, part in patterns.items():
            for name in instance:
                if _found(pattern, name):
                    yield from validator.descend(instance[name], part, path=name)


def _additional_properties(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in instance:
            if name not in schema.get("properties", {}) and not _matches_any(schema, name):
                if additional is False:
                    yield ValidationError("not declared")
                yield from validator.descend(instance[name], additional, path=name)


def _unevaluated_properties(validator: Any, unevaluated: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        evaluated = _evaluated(
            validator, instance, {key: part for key, part in schema.items() if key != "unevaluatedProperties"}
        )
        for name in instance:
            if name not in evaluated and not _holds(validator, instance[name], unevaluated):
                yield ValidationError("not declared")


def _any_of(validator: Any, branches: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if not any(_holds(validator, instance, branch) for branch in branches):
        yield ValidationError("no branch holds")


def _one_of(validator: Any, branches: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if sum(_holds(validator, instance, branch) for branch in branches) != 1:
        yield ValidationError("none or several branches hold")


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _reference(validator: Any, key: str, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    yield from validator.descend(instance, _run.get().targets[key])


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The names that `schema` says something of, through those of its branches that hold."""
    if not isinstance(schema, dict):
        return set()
    _run.get().pay(_STEP + len(instance) + len(schema.get("properties", ())))
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        # The rest is theirs: that it fits is checked where they stand.
        return set(instance)
    names: set[str] = instance.keys() & schema.get("properties", {}).keys()
    names |= {name for name in instance if _matches_any(schema, name)}
    for branch in _holding_branches(validator, instance, schema):
        names |= _evaluated(validator, instance, branch)
    return names


def _holding_branches(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Iterator[Any]:
    if "$ref" in schema:
        yield _run.get().targets[schema["$ref"]]
    yield from schema.get("allOf", ())
    for keyword in ("anyOf", "oneOf"):
        yield from (branch for branch in schema.get(keyword, ()) if _holds(validator, instance, branch))
    yield from (branch for name, branch in schema.get("dependentSchemas", {}).items() if name in instance)
    if "if" in schema:
        held = _holds(validator, instance, schema["if"])
        if held:
            yield schema["if"]
        yield schema.get("then" if held else "else", True)


def _found(pattern: str, text: str) -> bool:
    searched = linear_pattern(pattern)
    _run.get().pay(_STEP + searched.cost * len(text))
    return searched.found_in(text)


def _matches_any(schema: dict[str, Any], name: str) -> bool:
    return any(_found(pattern, name) for pattern in schema.get("patternProperties", ()))


def _weight(value: Any) -> int:
    """How long `value` takes to compare or to print, in about microseconds."""
    if isinstance(value, dict):
        return 1 + sum(1 + len(key) // 64 + _weight(part) for key, part in value.items())
    if isinstance(value, list):
        return 1 + sum(map(_weight, value))
    if isinstance(value, str):
        return 1 + len(value) // 64
    return 1 + value.bit_length() // 256 if isinstance(value, int) else 1


def _breadth(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _comparisons(items: Any) -> int:
    """Of all items with each other; texts are sorted first."""
    sorted_first = isinstance(items, list) and all(isinstance(item, str) for item in items)
    return 0 if sorted_first or not isinstance(items, list) else len(items) * _weight(items) // 2


_PRICES: dict[str, Callable[[Any, Any], int]] = {
    "const": lambda value, instance: _weight(instance),  # noqa: ARG005
    "enum": lambda value, instance: len(value) * _weight(instance),
    "uniqueItems": lambda value, instance: _comparisons(instance),  # noqa: ARG005
    "unevaluatedItems": lambda value, instance: _breadth(instance) ** 2 // 8 if isinstance(instance, list) else 0,  # noqa: ARG005
    "multipleOf": lambda value, instance: _weight(instance) ** 2,  # noqa: ARG005
    "dependentRequired": lambda value, instance: sum(map(len, value.values())),  # noqa: ARG005
}
"""What a keyword costs beside its step and the breadth of what it looks at."""


def _paid(keyword: str, check: _Check) -> _Check:
    price = _PRICES.get(keyword)

    def paid(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        run = _run.get()
        run.pay(_STEP + _breadth(value) + _breadth(instance) + (price(value, instance) if price else 0))
        for error in check(validator, value, instance, schema) or ():
            if not isinstance(error.validator, str):
                # Made here: its message has printed both.
                run.pay(_weight(instance) + _weight(value))
            yield error

    return paid


_CHECKS: dict[str, _Check] = {
    **Draft202012Validator.VALIDATORS,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "unevaluatedProperties": _unevaluated_properties,
    "$ref": _reference,
}
_Paying: Any = validators.extend(  # type: ignore[no-untyped-call]  # the stubs leave it untyped
    Draft202012Validator, {keyword: _paid(keyword, check) for keyword, check in _CHECKS.items()}
)
