"""Every interleaving of an approval request: no call without its approvals, twice or after an end, and one closing message."""

from __future__ import annotations

import pytest

from tests.invariants.approval_model import PLANTED, explore, hopeless


@pytest.mark.parametrize("ledger", [True, False])
def test_no_reachable_state_of_a_request_is_wrong_and_each_can_end(ledger: bool) -> None:
    edges, found = explore(ledger=ledger)
    assert found == ""
    assert len(edges) > 8_000
    assert hopeless(edges) == 0


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_of_the_protocol_is_found(planted: str) -> None:
    assert any(explore(ledger=ledger, planted=planted)[1] for ledger in (True, False))
