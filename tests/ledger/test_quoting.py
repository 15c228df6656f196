"""Receipts: one line each, whatever a description contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.ledger.quoting import SHOWN_LENGTH, quoted


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("a\nb\r\nc\u2028d", "'a b c d'"),
        ("\u202egnp.exe\u2066", "'gnp.exe'"),
        ("\x1b[31mred\x1b[0m", "'[31mred [0m'"),
        ("zero\u200bwidth\ufeff", "'zerowidth'"),
        ("👨\u200d👩\u200d👧 lunch", "'👨\u200d👩\u200d👧 lunch'"),
        ("x' and deleted 'y", "'x\u2019 and deleted \u2019y'"),
        ("é" * 1000, f"'{'é' * 1000}'"),
        ("é" * 1001, f"'{'é' * 999}…'"),
        ("\U000e0041\U000e0042", "''"),
    ],
)
def test_control_characters_and_quotes_in_a_description_are_neutralized(description: str, shown: str) -> None:
    assert quoted(description) == shown


@given(st.text(max_size=200))
def test_for_any_description_the_receipt_is_one_line_in_one_pair_of_quotes(description: str) -> None:
    shown = quoted(description)
    assert shown.count("'") == 2
    assert shown.isprintable() or any(joiner in shown for joiner in "\u200c\u200d") or "\u3000" in shown
    assert len(shown.splitlines()) == 1
    assert len(shown) <= SHOWN_LENGTH + 2
