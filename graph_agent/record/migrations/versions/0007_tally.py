"""The tally of baselines, reports and settlements, which revision 0011 replaces: nothing is left to do."""

from __future__ import annotations

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    pass
