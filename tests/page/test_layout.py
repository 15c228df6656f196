"""The picture of the state machine draws what the topology declares."""

from __future__ import annotations

import re
from pathlib import Path

from graph_agent.graph.topology import END, TOPOLOGY

LAYOUT = (Path(__file__).parents[2] / "ui" / "src" / "machine" / "layout.ts").read_text()
DETAILS = (Path(__file__).parents[2] / "ui" / "src" / "machine" / "details.tsx").read_text()


def test_every_state_has_a_place_and_a_description() -> None:
    assert set(re.findall(r"^  ([A-Z_]+): \{ x: ", LAYOUT, re.MULTILINE)) == set(TOPOLOGY)
    assert set(re.findall(r'^  ([A-Z_]+): "', DETAILS, re.MULTILINE)) == set(TOPOLOGY)


def test_every_edge_has_a_route() -> None:
    edges = {f"{state}>{target}" for state, outcomes in TOPOLOGY.items() for target in outcomes.values() if target != END}
    assert set(re.findall(r'^  "([A-Z_]+>[A-Z_]+)": "M', LAYOUT, re.MULTILINE)) == edges
