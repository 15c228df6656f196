"""Writes `graph_agent/__init__.pyi` from the list of public names: `make stub`."""

from __future__ import annotations

from pathlib import Path

import graph_agent

STUB = Path(graph_agent.__file__).with_suffix(".pyi")


def stub_text() -> str:
    """Return the stub: each public name, imported from its module and exported again."""
    lines = [
        "# Written by `make stub` from the list in __init__.py.",
        "# ruff: noqa: A004 - TimeoutError is the name that the adapter contract gives to the timeout of a model call",
        "",
    ]
    for module, names in graph_agent._NAMES.items():  # type: ignore[attr-defined]  # noqa: SLF001 (it is not in the stub, which is made of it)
        lines += [f"from graph_agent.{module} import {name} as {name}" for name in names]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub_text(), encoding="utf-8")
