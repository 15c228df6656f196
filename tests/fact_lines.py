"""Facts and rules in one text, as tests write them: lines `- name: declaration`, also in comments, and Cedar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from graph_agent.policy.constitution import SECTION, Constitution
from graph_agent.policy.fact_lines import FACTS_SECTION
from graph_agent.policy.facts import Fact

_LINE = re.compile(r"^[ ]*(?:// )?(- [A-Za-z_][A-Za-z0-9_]*: .*\n?)", re.MULTILINE)


def split(text: str) -> tuple[str, str]:
    """Return the section of the facts, which is empty without one, and the rules."""
    lines = [one if one.endswith("\n") else f"{one}\n" for one in _LINE.findall(text)]
    return f"{FACTS_SECTION}\n{''.join(lines)}\n" if lines else "", _LINE.sub("\n", text)


def write_rules(folder: Path, text: str) -> tuple[str, ...]:
    """Write the shipped constitution with these facts, and the rules; return the options of commands that name the files."""
    facts, rules = split(text)
    constitution, policy = folder / "constitution.md", folder / "policy.cedar"
    constitution.write_text(facts + Constitution.load().text, encoding="utf-8")
    policy.write_text(rules, encoding="utf-8")
    return "--constitution", str(constitution), "--conditions", str(policy)


def facts_in(text: str) -> Mapping[str, Fact]:
    """Return the facts of such a text by name."""
    return Constitution.parse(f"{split(text)[0]}{SECTION}\n- a: B\n").facts
