"""The data of a result from which facts are taken: the JSON of a text only where every reader takes the same from it."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.nesting import is_deeper_than
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
from graph_agent.policy.cedar.result_data import whole_data
from tests.scaling import grows_with_length


def data_of(text: str) -> Any:
    content = [ContentItem(kind=ContentKind.TEXT, type="text/plain")]
    return whole_data(ToolResult(success=True, data={"text": text}, content=content))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"id": "W1"}', {"id": "W1"}),
        ('["W1"]', {"result": ["W1"]}),
        ("1e22", {"result": 1e22}),
        ("[[[]]]", {"result": [[[]]]}),
    ],
)
def test_the_json_of_a_text_is_its_data(text: str, data: Any) -> None:
    assert data_of(text) == data


@pytest.mark.parametrize(
    "text", ["[1e999]", "[-1e999]", "[NaN]", '{"a": 1, "a": 2}', '["\\ud800"]', "[" * 65 + "]" * 65, "[" * 5_000 + "]" * 5_000]
)
def test_what_readers_might_take_otherwise_stays_a_text(text: str) -> None:
    assert data_of(text) == {"text": text}


@pytest.mark.parametrize(
    ("data", "levels"), [("W1", 0), ([], 1), ({"a": 1}, 1), ([1, [2], {"a": {}}], 3), ({"a": [{"b": [1]}]}, 4)]
)
def test_data_is_as_deep_as_its_lists_and_objects_are_nested(data: Any, levels: int) -> None:
    assert not is_deeper_than(data, levels)
    assert levels == 0 or is_deeper_than(data, levels - 1)


def test_a_repeated_key_is_named_in_a_time_in_proportion_to_the_keys() -> None:
    with pytest.raises(RepeatedKeyError) as raised:
        unique_keys([("a", 1), ("b", 2), ("b", 3), ("a", 4)])
    assert raised.value.key == "b"

    def fails(text: str) -> None:
        with pytest.raises(RepeatedKeyError):
            unique_keys([*((f"k{number}", 1) for number in range(len(text))), (f"k{len(text) - 1}", 2)])

    assert grows_with_length(fails, "x".__mul__, 20_000)
