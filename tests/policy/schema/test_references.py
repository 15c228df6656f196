"""References of a schema to its own parts."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.policy.schema.references import find_part

SIZE = {"type": "integer"}
ROOT = {"$defs": {"Size": SIZE, "a/b": SIZE, "ä~": SIZE}, "anyOf": [{"type": "null"}, SIZE]}


@pytest.mark.parametrize("reference", ["#/$defs/Size", "#/$defs/a~1b", "#/$defs/%C3%A4~0", "#/anyOf/1"])
def test_a_pointer_names_a_part_of_its_document(reference: str) -> None:
    assert find_part(ROOT, reference) is SIZE


@pytest.mark.parametrize("reference", ["", "#"])
def test_the_root_is_named_without_a_pointer(reference: str) -> None:
    assert find_part(ROOT, reference) is ROOT


@pytest.mark.parametrize(
    "reference", ["#/$defs/Weight", "#/anyOf/2", "#/anyOf/x", "#/$defs/Size/type/0/x", "#Size", "other.json#/a"]
)
def test_what_names_no_part_is_none(reference: str) -> None:
    found: Any = find_part(ROOT, reference)
    assert found is None
