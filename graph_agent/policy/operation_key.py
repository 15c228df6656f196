"""The operation key as a server takes it: its value, and the schema that is left for the model.

A server that takes a key promises that calls with the same value take effect once, and that a repeated call gets the
answer of the first one. The value follows from the operation key and from the schema alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self
from uuid import UUID, uuid5

from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.policy.key_location import KeyLocation, KeyPlace
from graph_agent.policy.schema.check import ArgumentCheck
from graph_agent.policy.schema.keywords import SchemaRefusedError, walk
from graph_agent.policy.schema.references import find_part
from graph_agent.policy.schema.upgrade import upgraded

_NAMESPACE: Final = UUID("6f1c2a5e-8f0b-5f0e-9a63-0f5a3f3b8c11")
_SAMPLES: Final = tuple(f"{UUID(int=number)}:{number % 97 + 1}" for number in range(0, 2**128, 2**128 // 7))
"""Operation keys for which a form has to fit the schema."""
_ALPHABETS: Final = (
    string.hexdigits[:16],
    string.digits + "ABCDEF",
    string.digits + string.ascii_lowercase,
    string.digits + string.ascii_uppercase,
    string.digits + string.ascii_letters,
    string.digits,
    string.ascii_lowercase,
    string.ascii_uppercase,
)
_LENGTHS: Final = range(64, 10, -1)
_LEAST_BITS: Final = 64
"""Two operations have the same value with a probability of less than one in 2 ** 32, for 65,000 operations."""
_USUAL_NAMES: Final = frozenset(
    {
        "client_reference",
        "client_reference_id",
        "client_request_id",
        "client_request_token",
        "client_token",
        "dedupe_key",
        "deduplication_id",
        "idempotency_id",
        "idempotency_key",
        "idempotency_token",
        "operation_id",
        "operation_key",
        "reference",
        "request_id",
        "request_token",
    }
)
_PREFIX: Final = re.compile(r"\^([A-Za-z0-9_-]+)(?![A-Za-z0-9_?*+{-])")
_SAME_OBJECT: Final = frozenset(
    {
        "$ref",
        "allOf",
        "anyOf",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "patternProperties",
        "then",
    }
)
"""The keywords with which a schema can name a property a second time."""


class KeyArgumentError(Exception):
    """The runtime cannot fill the argument; the text is a clause about it."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The form of a value: the operation key itself, a UUID, or a text of an alphabet after a prefix."""

    is_uuid: bool = False
    prefix: str = ""
    alphabet: str = ""
    length: int = 0

    def value(self, operation_key: str) -> str:
        """Return the value for an operation key."""
        if self.is_uuid:
            return str(uuid5(_NAMESPACE, operation_key))
        if not self.alphabet:
            return operation_key
        number = int.from_bytes(hashlib.sha512(operation_key.encode()).digest())
        digits = []
        for _ in range(self.length):
            number, digit = divmod(number, len(self.alphabet))
            digits.append(self.alphabet[digit])
        return self.prefix + "".join(digits)


@dataclass(frozen=True, slots=True)
class SentKey:
    """An operation key in a request."""

    location: KeyLocation
    value: str

    def at(self, place: KeyPlace) -> dict[str, str]:
        """Return the name and the value if the key is at this place; else nothing."""
        return {self.location.name: self.value} if self.location.place is place else {}

    def without_echo(self, data: Any) -> Any:
        """Return the data of a result without the fields that repeat the key under its name."""
        match data:
            case dict():
                return {name: self.without_echo(one) for name, one in data.items() if not self._is_repeated(name, one)}
            case list():
                return [self.without_echo(one) for one in data]
        return data

    def _is_repeated(self, name: str, value: Any) -> bool:
        # A result has no headers, so that it repeats the key under a similar name.
        return bool(value == self.value) and _words(name) == _words(self.location.name.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class OperationKey:
    """The location and the form in which a tool takes the operation key."""

    location: KeyLocation
    form: KeyForm

    @classmethod
    def of(cls, location: KeyLocation, schema: Mapping[str, Any]) -> Self:
        """Return the key of a tool with this input schema. Raises `KeyArgumentError`.

        No schema says which form a header has, or a field of `_meta`: it is a UUID.
        """
        if location.place is not KeyPlace.ARGUMENT:
            return cls(location, KeyForm(is_uuid=True))
        return cls(location, _form(location.name, canonical_json(schema)))

    def filled(self, operation_key: str) -> SentKey:
        """Return the key of an operation."""
        return SentKey(self.location, self.form.value(operation_key))

    @property
    def argument(self) -> str | None:
        """The argument that has the key; None if it is elsewhere."""
        return self.location.name if self.location.place is KeyPlace.ARGUMENT else None

    def hidden_in(self, declaration: ToolDeclaration) -> ToolDeclaration:
        """Return the declaration without the argument, which neither the model nor a condition sees."""
        if self.argument is None:
            return declaration
        schema = {**declaration.parameters}
        schema["properties"] = {name: one for name, one in schema["properties"].items() if name != self.argument}
        if isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if name != self.argument]
        return declaration.replace(parameters=schema)


def takes_key(name: str, schema: Mapping[str, Any]) -> bool:
    """True if an argument is named like one for operation keys, and can have one."""
    if _words(name) not in _USUAL_NAMES:
        return False
    try:
        _form(name, canonical_json(schema))
    except KeyArgumentError:
        return False
    return True


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[-_. ]+", "_", name).lower()


# Cached, because policies are compiled often.
@lru_cache(maxsize=256)
def _form(name: str, text: str) -> KeyForm:
    """Return the first form that fits the schema of the argument."""
    schema = upgraded(json.loads(text))
    properties = schema.get("properties")
    if not isinstance(properties, dict) or name not in properties:
        raise KeyArgumentError(f"has no argument '{name}' for the operation key")
    definitions = {keyword: schema[keyword] for keyword in ("$defs", "definitions") if keyword in schema}
    others = [part for keyword, part in schema.items() if keyword in _SAME_OBJECT]
    if others and canonical_json(name) in canonical_json([*others, definitions]):
        raise KeyArgumentError(f"names its argument '{name}' a second time in its schema, so that it cannot be hidden")
    alone = {"type": "object", **definitions, "properties": {name: properties[name]}, "required": [name]}
    parts = _parts(properties[name], definitions)
    formats = {part["format"] for part in parts if isinstance(part.get("format"), str)}
    patterns = [part["pattern"] for part in parts if isinstance(part.get("pattern"), str)]
    try:
        check = ArgumentCheck(canonical_json(alone))
    except SchemaRefusedError as exc:
        raise KeyArgumentError(f"has an argument '{name}' whose schema {exc}") from None
    if not formats - {"uuid"}:
        for form in _forms(patterns, is_uuid="uuid" in formats):
            if all(check.first_issue({name: form.value(sample)}) is None for sample in _SAMPLES):
                return form
    raise KeyArgumentError(
        f"has an argument '{name}' that no operation key fits: it takes no text of at least {_LEAST_BITS} bits"
    )


def _parts(schema: Any, definitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that apply to a value, with those that they refer to."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        for _, part in walk(waiting.pop()):
            if part not in found:
                found.append(part)
                if isinstance(reference := part.get("$ref"), str):
                    waiting.append(find_part(definitions, reference))
    return found


def _forms(patterns: list[str], *, is_uuid: bool) -> Iterator[KeyForm]:
    """Yield the forms in the order of preference."""
    if not is_uuid:
        yield KeyForm()
    yield KeyForm(is_uuid=True)
    if is_uuid:
        return
    for prefix in dict.fromkeys(["", *(found[1] for one in patterns if (found := _PREFIX.match(one)))]):
        for alphabet in _ALPHABETS:
            for length in _LENGTHS:
                if length * math.log2(len(alphabet)) >= _LEAST_BITS:
                    yield KeyForm(prefix=prefix, alphabet=alphabet, length=length)
