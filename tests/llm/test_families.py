from __future__ import annotations

from datetime import date, timedelta

import pytest

from graph_agent.llm.families import (
    DEFAULT_MODEL,
    NEWEST,
    answering_model,
    family_of,
    output_tokens,
    routed_model,
    successor,
    thinking_of,
)


@pytest.mark.parametrize(
    ("model", "prefix"),
    [
        ("gemini-3.8-flash", "gemini-3"),
        ("models/gemini-3.6-flash", "gemini-3"),
        ("Gemini-3-Pro-Preview", "gemini-3-pro"),
        ("gemini-3.1-pro-preview", "gemini-3"),
        ("gemini-2.5-flash-lite", "gemini-2.5"),
        ("gemini-2.0-flash", "gemini-2."),
        ("gemini-1.5-pro", "gemini-1."),
    ],
)
def test_a_name_belongs_to_the_longest_prefix(model: str, prefix: str) -> None:
    assert family_of(model).prefix == prefix


@pytest.mark.parametrize("model", ["gemini-flash-latest", "gemini-4-ultra", "gemini-10-flash", "something-else"])
def test_an_unknown_name_gets_the_newest_row(model: str) -> None:
    assert family_of(model) is NEWEST


def test_only_the_second_generation_takes_a_temperature() -> None:
    assert [family_of(name).takes_temperature for name in ("gemini-2.0-flash", "gemini-2.5-pro", DEFAULT_MODEL)] == [
        True,
        True,
        False,
    ]


def test_an_effort_is_a_level_or_a_budget_or_nothing() -> None:
    said = [
        thinking_of(family_of(name), "medium")
        for name in (DEFAULT_MODEL, "gemini-3-pro", "gemini-2.5-flash", "gemini-2.0-flash")
    ]
    assert [(one.level, one.budget) for one in said] == [("medium", None), ("high", None), (None, 8192), (None, None)]


def test_the_output_limit_includes_an_allowance_for_thoughts() -> None:
    assert output_tokens(family_of(DEFAULT_MODEL), "low", 1024) == 1024 + 4096
    assert output_tokens(family_of("gemini-2.0-flash"), "low", 1024) == 1024
    assert output_tokens(family_of(DEFAULT_MODEL), "high", 65000) == 65536


@pytest.mark.parametrize(
    "model",
    [
        "gemini-2.0-flash",
        "models/gemini-2.0-flash-001",
        "gemini-2.5-flash",
        "gemini-2.5-pro",
        "gemini-3-pro-preview",
        "gemini-pro",
        "gemini-3.5-flash",
        "gemini-3.7-flash",
    ],
)
def test_a_retired_name_has_a_successor(model: str) -> None:
    assert successor(model) == DEFAULT_MODEL


@pytest.mark.parametrize(
    "model",
    [DEFAULT_MODEL, "gemini-flash-latest", "gemini-2.5-flash-lite", "gemini-3.5-flash-lite", "gemini-3.6-flash", "llama3"],
)
def test_another_name_has_no_successor(model: str) -> None:
    assert successor(model) is None


@pytest.mark.parametrize(
    ("model", "since", "after"),
    [
        ("gemini-3.7-flash", date(2026, 10, 8), "gemini-3.8-flash"),
        ("gemini-3.5-flash", date(2026, 10, 8), "gemini-3.6-flash"),
        ("gemini-2.5-flash", date(2026, 12, 1), "gemini-3.5-flash-lite"),
        ("models/gemini-2.5-pro", date(2026, 12, 1), "gemini-3.8-flash"),
    ],
)
def test_google_answers_some_models_with_others_from_a_day_on(model: str, since: date, after: str) -> None:
    assert answering_model(model, since - timedelta(days=1)) == model
    assert answering_model(model, since) == after


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "gemini-3.5-flash-lite", "gemini-2.5-flash-lite", "llama3"])
def test_other_models_answer_themselves_on_any_day(model: str) -> None:
    assert answering_model(model, date(2030, 1, 1)) == model


@pytest.mark.parametrize(
    ("model", "response_model", "expected"),
    [
        ("gemini-2.5-pro", "gemini-3.8-flash", "gemini-3.8-flash"),
        ("gemini-2.5-pro", "models/Gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-2.5-pro", None, "gemini-2.5-pro"),
        ("gemini-2.5-pro", "our-proxy", "gemini-2.5-pro"),
        ("our-alias", "gemini-2.5-pro", "our-alias"),
    ],
)
def test_only_a_gemini_model_that_another_one_answered_is_routed(model: str, response_model: str | None, expected: str) -> None:
    assert routed_model(model, response_model) == expected
