"""Servers of others whose answers are lost: nothing is sent twice, and what is not known is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foreign.lost_answers import FOREIGN, call_often


@pytest.mark.foreign
@pytest.mark.parametrize("name", FOREIGN)
async def test_a_call_whose_answer_is_lost_is_sent_once_and_reported(name: str, installed: Path, tmp_path: Path) -> None:
    outcomes = await call_often(name, 8, tmp_path, installed)
    assert outcomes.is_as_promised, outcomes
