"""Prints figures beside their goals, and remembers the goals that are missed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

missed: list[str] = []
"""One line for each goal that a printed figure misses."""


def against(name: str, figure: float, goal: float | None, unit: str = "") -> str:
    """Return the goal (an upper bound) as the end of a table's line, and remember it if `figure` misses it."""
    if goal is None:
        return ""
    if figure <= goal:
        return f"  goal {goal:g}{unit}"
    missed.append(f"{name}: {figure:.2f}{unit}, goal {goal:g}{unit}")
    return f"  goal {goal:g}{unit}, missed"


def versions(packages: Iterable[str]) -> str:
    """Return the packages with their installed versions."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def print_missed() -> None:
    """Print which goals were missed."""
    print("every goal is met" if not missed else "missed goals:\n  " + "\n  ".join(missed))
