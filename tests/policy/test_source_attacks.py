"""The injections of `tests/source_attacks.py` against the measured rule: none runs, and ordinary turns need no yes."""

from __future__ import annotations

import pytest

from tests.source_attacks import ATTACKS, CONSTITUTION, ORDINARY, RULES, runs


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_injection_runs_without_the_users_yes(name: str) -> None:
    assert not await runs(ATTACKS[name])


@pytest.mark.parametrize("name", ORDINARY)
async def test_what_the_user_has_said_runs_without_a_question(name: str) -> None:
    assert await runs(ORDINARY[name])


@pytest.mark.parametrize("name", ATTACKS)
async def test_without_the_rule_each_of_them_runs(name: str) -> None:
    assert await runs(ATTACKS[name], None, CONSTITUTION)


def test_there_are_thirty_attacks_of_ten_kinds_and_rules_for_all_targets() -> None:
    assert len(ATTACKS) >= 30
    assert len({one.kind for one in ATTACKS.values()}) >= 10
    assert RULES.count("forbid") == 10
