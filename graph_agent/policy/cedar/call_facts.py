"""The facts of one call, as its conditions read them. Without Cedar, which belongs to an extra."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.models.facts import Selected


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of one call. One that is in neither `values` nor `failed` is absent."""

    values: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    about: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The arguments of the reads by fact: what distinguishes its object from others."""

    def add(self, found: Selected) -> None:
        self.values.update(found.values)
        self.failed.update(found.failed)
