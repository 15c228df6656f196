"""The environment variables of the program in tests: unset, and a value that some need."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from graph_agent.settings import Settings, unknown_variables


def unset_variables(patch: pytest.MonkeyPatch) -> None:
    for name in (*(str(field.alias) for field in Settings.model_fields.values()), *unknown_variables()):
        patch.delenv(name, raising=False)


def noon_here() -> str:
    """Return a time zone in which it is about noon, so that no day ends during the test."""
    offset = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-offset:+}"
