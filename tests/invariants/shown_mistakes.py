"""Planted mistakes about the values that a yes is for: changes of the package, made while it is imported.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.planted import Edit

_CANONICAL = "graph_agent.models.canonical"
_CONFIRMATION = "graph_agent.words.confirmation"
_SAID = "graph_agent.words.said"

MISTAKES: Mapping[str, Sequence[Edit]] = {
    "default": [Edit(_CONFIRMATION, "{**defaults, **arguments}", "{**arguments}")],
    "preview": [Edit(_SAID, '"preview": {"": self.text_of_object}', '"preview": {}')],
    "fact": [
        Edit(
            _SAID,
            "for fact in self.facts if not fact.missing for path",
            "for fact in self.facts if not fact.missing and self.preview is None for path",
        )
    ],
    "before": [Edit(_SAID, '"replaced": {**self.read.replaced}', '"replaced": {}')],
    "failed read": [
        Edit(
            "graph_agent.graph.evidence",
            "return shown is not None and digest_of_call",
            "return shown is not None and bool(known.read.said) and digest_of_call",
        )
    ],
    "1 and 1.0": [Edit(_CANONICAL, "isinstance(value, float) and value.is_integer()", "False")],
    "null and absent in an object": [Edit(_CANONICAL, "in value.items() if one is not None}", "in value.items()}")],
}
"""The name of each mistake, with which the violation that it causes begins -> what it changes."""
