"""Size limits of tool results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.result_size import LEFT_OUT, MAX_KEPT_BYTES, fit_data

ROWS = [{"id": n, "text": "x" * 50} for n in range(10_000)]


@pytest.mark.parametrize("data", [None, {}, [], {"a": [1, {"b": None}]}, {"text": "x" * (MAX_KEPT_BYTES - 20)}])
def test_data_within_the_limit_is_returned_unchanged(data: Any) -> None:
    assert fit_data(data) is data


def test_a_long_list_keeps_its_first_items_and_the_size_of_the_original() -> None:
    for data, key in (({"rows": ROWS, "next": "token"}, "rows"), (ROWS, "items")):
        kept = fit_data(data)
        assert isinstance(kept, dict)
        assert kept[key] == ROWS[: len(kept[key])]
        assert len(kept[key]) > 1000
        size, whole = len(canonical_json(data)), digest(data)
        notice = f"only the first {len(kept[key])} of 10000 are shown"
        assert kept[LEFT_OUT] == {"bytes": size, "sha256": whole, "told": notice}


def test_a_long_text_keeps_its_beginning() -> None:
    kept = fit_data({"text": "a" * 50_000_000})
    assert isinstance(kept, dict)
    assert kept["text"].startswith("aaa")
    assert kept[LEFT_OUT]["bytes"] == 50_000_011


def test_data_that_cannot_be_shortened_is_replaced_by_its_size() -> None:
    kept = fit_data({"picture": "x" * 1_000_000, "more": 1})
    assert isinstance(kept, dict)
    assert kept.keys() == {LEFT_OUT}


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(st.text(max_size=6), json_data, max_size=4) | st.lists(json_data, max_size=6), st.integers(0, 400))
def test_for_any_data_the_result_is_bounded_and_has_the_original_size(data: Any, limit: int) -> None:
    kept = fit_data(data, limit)
    whole = len(canonical_json(data).encode())
    if whole <= limit:
        assert kept is data
    else:
        assert isinstance(kept, dict)
        assert kept[LEFT_OUT]["bytes"] == whole
        assert len(canonical_json(kept).encode()) <= limit + 250
