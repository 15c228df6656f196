"""Prints figures beside their goals, and remembers the goals that are missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TypeVar

T = TypeVar("T")

MEASURED_AGAIN = 2
"""The number of further measurements that a ratio gets which misses its goal."""

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

    While a ratio misses its goal, all are measured again, at most twice, and the lowest of each counts: what happens beside a
    benchmark rarely makes it miss a goal three times, and a change that costs time always does.
    """
    found, ratios = measure()
    lowest = {name: ratios[name] for name in goals}
    for _ in range(MEASURED_AGAIN):
        if all(lowest[name] <= goal for name, goal in goals.items()):
            break
        found, ratios = measure()
        lowest = {name: min(ratio, ratios[name]) for name, ratio in lowest.items()}
    return found, lowest


def versions(packages: Iterable[str]) -> str:
    """Return the packages with their installed versions."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def print_missed() -> None:
    """Print which goals were missed."""
    print("every goal is met" if not missed else "missed goals:\n  " + "\n  ".join(missed))
