"""Prints figures beside their goals, and remembers the goals that are missed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TypeVar

T = TypeVar("T")

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


def settled(measure: Callable[[], tuple[T, Mapping[str, float]]], goals: Mapping[str, float]) -> tuple[T, dict[str, float]]:
    """Return what `measure` returns: something to print, and the ratios that have these `goals`.

    If a ratio misses its goal, it is measured twice more and the median of the three counts: noise alone rarely exceeds a goal
    twice.
    """
    found, ratios = measure()
    measured = [ratios]
    if any(ratios[name] > goal for name, goal in goals.items()):
        for _ in range(2):
            found, ratios = measure()
            measured.append(ratios)
    return found, {name: statistics.median(one[name] for one in measured) for name in goals}


def versions(packages: Iterable[str]) -> str:
    """Return the packages with their installed versions."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def print_missed() -> None:
    """Print which goals were missed."""
    print("every goal is met" if not missed else "missed goals:\n  " + "\n  ".join(missed))
