"""The check of arguments against an untrusted schema, in bounded time for any schema and any arguments.

Patterns are searched by an automaton, which cannot backtrack, and the cost of a schema is bounded before it is used. The cost
is counted in steps, not in seconds, because a replay has to reach the same verdict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn

from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError, meta

from graph_agent.models.canonical import canonical_json
from graph_agent.models.nesting import is_deeper_than
from graph_agent.policy.schema import keywords
from graph_agent.policy.schema.keywords import SchemaRefusedError, walk
from graph_agent.policy.schema.strict import Schema, declares_all
from graph_agent.policy.schema.upgrade import upgraded
from graph_agent.reply.text import one_line

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
MAX_ARGUMENT_BYTES: Final = 16 * 1024
MAX_ARGUMENT_DEPTH: Final = 16
"""Levels of objects and lists. A paragraph of Notion with two levels of blocks below it has 14, a mail of Microsoft Graph 6."""
MAX_RESULT_DEPTH: Final = 32
MAX_STEPS: Final = 20_000_000
"""Upper limit of the steps of one check: the number of schemas that apply to one value, multiplied by the number of bytes of
the arguments. A step takes about 50 ns."""
_MAX_ANNOTATIONS: Final = 200_000
"""Upper limit of the annotations that one check collects. An annotation takes about 1 KB."""

_IDENTIFIED: Final = frozenset(keywords.REFERENCES) | {"$anchor", "$dynamicAnchor"}
_INVALID: Final = "is not valid JSON Schema, or refers to what is not in it"
_SMALL_ARGUMENTS: Final = 256
UNDECLARED: Final = "unevaluatedProperties"
"""The keyword that is reported for a property that the schema does not declare."""
_SHOWN_VALUES: Final = 10
_SHOWN_CHARS: Final = 80
"""The length to which a value is cut in an explanation."""
_USUAL_DEPTH: Final = 5
"""A schema is refused if even arguments of this many bytes and levels can take more than MAX_STEPS. Most need no more levels.
In a schema that refers to itself each level multiplies the cost, so that of deeper arguments is counted by their own levels."""
_AUTOMATA: Final = {1 << 14: 20, 1 << 16: 80, 1 << 18: 320, 1 << 20: 1280}
"""Size of a pattern's automaton in bytes -> the cost of one search, as a number of schemas. Larger automata are refused."""


class CheckTooExpensiveError(Exception):
    """The check of these arguments could exceed MAX_STEPS."""


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """The first violation that was found in the arguments."""

    keyword: str
    """The keyword of JSON Schema that is violated."""
    path: str
    """The path to the value, separated by slashes; empty for the arguments themselves."""
    why: str = field(default="", compare=False)
    """The value that the schema expects there, and the one that it got, in a few words."""


class ArgumentCheck:
    """A compiled schema and its strict copy. Raises `SchemaRefusedError` for a schema that cannot be used."""

    def __init__(self, text: str) -> None:
        schema = Schema(_read(text))
        _require_valid_targets(schema)
        # First the original, because the strict copy of a schema that is too expensive would be expensive to make.
        self._costs = [_Costs(schema)]
        strict = schema.strict()
        self._costs.append(_Costs(Schema(strict)))
        self._original, self._strict = _compiled(schema.root), _compiled(strict)

    def first_issue(self, arguments: dict[str, Any]) -> ValidationIssue | None:
        """Return the first violation in `arguments` (at most `MAX_ARGUMENT_BYTES`), or None if they are valid.

        Raises `CheckTooExpensiveError`.
        """
        levels = _levels(arguments)
        cost = max(costs.of(levels) for costs in self._costs)
        if cost * MAX_ARGUMENT_BYTES > MAX_STEPS and cost * len(canonical_json(arguments)) > MAX_STEPS:
            raise CheckTooExpensiveError
        error = next(iter(self._original.iter_errors(arguments)), None)
        keyword = None if error is None else error.kind.name
        if error is None:
            error = next(iter(self._strict.iter_errors(arguments)), None)
            if error is None or declares_all(self._original, arguments, _MAX_ANNOTATIONS // cost):
                return None
            keyword = UNDECLARED if error.kind.name == "additionalProperties" else error.kind.name
        path = "/".join(str(step) for step in error.instance_path)
        return ValidationIssue(str(keyword), path, _why(str(keyword), error))


class ResultCheck:
    """A compiled output schema. Raises `SchemaRefusedError` for a schema that cannot be used.

    There is no strict copy: a server may return more than it declares.
    """

    def __init__(self, text: str) -> None:
        schema = Schema(_read(text))
        _require_valid_targets(schema)
        self._costs = _Costs(schema)
        self._validator = _compiled(schema.root)

    def accepts(self, result: Any) -> bool:
        """Return True if `result` is valid; False also if it is too large or too deep to be checked."""
        if (
            is_deeper_than(result, MAX_RESULT_DEPTH)
            or self._costs.of(_levels(result)) * len(canonical_json(result)) > MAX_STEPS
        ):
            return False
        return self._validator.is_valid(result)


def _why(keyword: str, error: ValidationError) -> str:
    """Return what the violated keyword expects, and the value that it got."""
    kind: Any = error.kind
    if keyword == "required":
        return f"{_shown(kind.property)} is missing"
    if unexpected := getattr(kind, "unexpected", None):
        return f"{_listed(unexpected)} is not declared"
    if keyword == "type":
        expected = " or ".join(sorted(kind.types))
    elif keyword == "enum":
        expected = f"one of {_listed(kind.options)}"
    elif keyword == "const":
        expected = _shown(kind.expected_value)
    elif (limit := getattr(kind, "limit", getattr(kind, "pattern", None))) is not None:
        expected = f"{keyword} {_shown(limit)}"
    else:
        expected = keyword
    return f"expected {expected}, got {_shown(error.instance)}"


def _listed(values: list[Any]) -> str:
    more = [f"{len(values) - _SHOWN_VALUES} more"] if len(values) > _SHOWN_VALUES else []
    return ", ".join([*map(_shown, values[:_SHOWN_VALUES]), *more])


def _shown(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), _SHOWN_CHARS)


def _read(text: str) -> dict[str, Any]:
    """Return the upgraded schema. Raises `SchemaRefusedError` if it is too large, too deep or not valid."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        raise SchemaRefusedError("is too large")
    try:
        schema = json.loads(text)
    except RecursionError:
        schema = None
    if schema is None or is_deeper_than(schema, MAX_SCHEMA_DEPTH):
        raise SchemaRefusedError("is too deep")
    # Without `$schema`, every schema is validated as draft 2020-12 and no meta-schema is fetched.
    schema = upgraded(schema)
    if not isinstance(schema, dict) or not meta.is_valid(schema):
        raise SchemaRefusedError("is not valid JSON Schema")
    if any("$recursiveRef" in part for _, part in walk(schema)):
        raise SchemaRefusedError("has a $recursiveRef that is not '#'")
    for nested in [part for keyword, part in walk(schema) if keyword and "$id" in part]:
        if any(_IDENTIFIED & inner.keys() for _, inner in walk(nested)):
            # Relative to that id they mean something else than in the document, which has one name space here.
            raise SchemaRefusedError("has references or anchors in a subschema with its own $id")
        del nested["$id"]
    return schema


def _require_valid_targets(schema: Schema) -> None:
    """Raise `SchemaRefusedError` for a reference to what is not valid, under a keyword whose value was not validated."""
    waiting = [part for _, part in walk(schema.root)]
    known = set(map(id, waiting))
    while waiting:
        part = waiting.pop()
        for target in [schema.resolved(part[word]) for word in keywords.REFERENCES if word in part]:
            if isinstance(target, dict) and id(target) not in known:
                if not meta.is_valid(target):
                    raise SchemaRefusedError(_INVALID)
                waiting += (new := [inner for _, inner in walk(target) if id(inner) not in known])
                known.update(map(id, new))


class _Costs:
    """The steps of a check for each byte of a value, by the number of its levels.

    Raises `SchemaRefusedError` if they are too many for a usual value.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[int, int] = {}
        try:
            usual = self.of(_USUAL_DEPTH)
        except RecursionError:
            raise SchemaRefusedError("refers from schema to schema too often") from None
        if usual * _SMALL_ARGUMENTS > MAX_STEPS:
            raise SchemaRefusedError("asks too much of one value")

    def of(self, levels: int) -> int:
        """Return the steps for each byte of a value of so many levels."""
        levels = max(levels, _USUAL_DEPTH)
        if levels not in self._known:
            # One level less than the value has: the last level has only scalar values, whose check is cheap.
            self._known[levels] = _cost(self._schema, self._schema.root, levels - 1, {})
        return self._known[levels]


def _cost(schema: Schema, part: Any, depth: int, known: dict[tuple[int, int], int]) -> int:
    """Return how many schemas apply to one value where `part` of `schema` applies, in values of at most `depth` levels.

    Raises `SchemaRefusedError` if the part refers to itself without consuming a level.
    """
    if not isinstance(part, dict):
        return 0
    node = (id(part), depth)
    if node not in known:
        # Zero marks a schema that is being counted: to meet it again is a cycle.
        known[node] = 0
        parts = [(schema.resolved(part[word]), depth) for word in keywords.REFERENCES if word in part]
        for keyword in part.keys() & (keywords.VALUES | keywords.BRANCHES | keywords.CONDITIONS):
            left = depth - 1 if keyword in keywords.VALUES else depth
            parts += [(one, left) for one in keywords.subschemas(part, keyword) if left >= 0]
        below = sum(_cost(schema, one, left, known) for one, left in parts)
        # To find what other keywords have evaluated, the validator runs them a second time.
        factor = 2 if {"unevaluatedProperties", "unevaluatedItems"} & part.keys() else 1
        patterns = [*part.get("patternProperties", ()), *([part["pattern"]] if "pattern" in part else ())]
        known[node] = 1 + len(part.get("enum", ())) + sum(map(_pattern_cost, patterns)) + factor * below
    elif not known[node]:
        raise SchemaRefusedError("refers to itself without end")
    return known[node]


def _compiled(schema: dict[str, Any]) -> Draft202012Validator:
    limits = RegexOptions(size_limit=max(_AUTOMATA), dfa_size_limit=1 << 20)
    try:
        return Draft202012Validator(schema, validate_formats=False, retriever=_refuse_retrieval, pattern_options=limits)
    except (ValidationError, ReferencingError, ValueError) as exc:
        raise SchemaRefusedError(_INVALID) from exc


def _refuse_retrieval(uri: str) -> NoReturn:
    # Versions of jsonschema-rs below 0.45, which LangGraph's development server requires, have no offline mode.
    raise ValueError(f"{uri} is not fetched")


@lru_cache(maxsize=1024)
def _pattern_cost(pattern: str) -> int:
    """Return the cost of one search, from the smallest automaton that can hold `pattern`."""
    for size, cost in _AUTOMATA.items():
        options = RegexOptions(size_limit=size, dfa_size_limit=1 << 20)
        try:
            Draft202012Validator({"pattern": pattern}, pattern_options=options)
        except (ValidationError, ValueError):
            continue
        return cost
    raise SchemaRefusedError("has a pattern that cannot be searched for in bounded time")


def _levels(value: Any) -> int:
    """Return how many levels of objects and lists a value has; 0 for a scalar value."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)
