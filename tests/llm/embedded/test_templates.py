"""The notation of the templates: each one reads what it describes, and nothing more."""

from __future__ import annotations

import random
import re
from importlib.resources import files
from typing import Any

import pytest
import yaml

from graph_agent.llm.embedded.templates import Template, all_templates, candidates
from tests.llm.embedded.environment import TaskConversation

_FOLDER = files("graph_agent.llm.embedded")
_LISTS: dict[str, Any] = yaml.safe_load((_FOLDER / "lists.yaml").read_text(encoding="utf-8"))
_TOKEN = re.compile(r"[\[\]()|]|<\w+>|\{\w+\}|[^\s\[\](){}<>|]+")
_BY_SENTENCE = {f"{template.intent}: {template.sentence}": template for template in all_templates()}


def _sample(sentence: str, dice: random.Random) -> str:
    """Return one of the texts that a template describes."""
    return " ".join(_choice(_TOKEN.findall(sentence), dice)).replace(" 's", "'s")


def _choice(tokens: list[str], dice: random.Random) -> list[str]:
    options: list[list[str]] = [[]]
    while tokens and tokens[0] not in "])":
        token = tokens.pop(0)
        if token == "|":
            options.append([])
        elif token in "[(":
            inner = _choice(tokens, dice)
            options[-1] += inner if tokens.pop(0) == ")" or dice.random() < 0.5 else []
        elif token[0] == "<":
            options[-1].append(_sample(_LISTS["expansion_rules"][token[1:-1]], dice))
        elif token[0] == "{":
            values = _LISTS["lists"][token[1:-1]].get("values", ["zebra stripes"])
            value = dice.choice(values)
            options[-1].append(value["in"] if isinstance(value, dict) else value)
        else:
            options[-1].append(token)
    return dice.choice(options)


@pytest.mark.parametrize("template", _BY_SENTENCE.values(), ids=_BY_SENTENCE)
async def test_a_template_matches_what_it_describes_and_the_answer_claims_nothing_else(template: Template) -> None:
    dice = random.Random(template.sentence)
    for _ in range(4):
        text = " ".join(_sample(template.sentence, dice).split())
        if not text:
            continue
        assert template in candidates(text), text
        assert template.match(text), text
        assert template.match(text.upper()), text
        assert not template.match(f"qqq {text}") or template.sentence[0] in "{[(", text
        environment = TaskConversation.of("buy milk", "call mom")
        turn = await environment.says(text)
        # No task is about zebra stripes, so only a new one can come of it.
        changed = set(turn.called) - {"list_tasks", "add_task"}
        assert not changed or template.intent in {"Complete", "Delete", "Update"}, (text, turn.text)
        assert turn.reports_change == turn.mutated or turn.kind == "confirm", (text, turn.text)


def test_both_files_are_readable_in_one_sitting() -> None:
    lines = sum(len((_FOLDER / name).read_text(encoding="utf-8").splitlines()) for name in ("sentences.yaml", "lists.yaml"))
    assert lines <= 450


def test_every_rule_and_every_list_is_used() -> None:
    text = (_FOLDER / "sentences.yaml").read_text(encoding="utf-8") + str(_LISTS["expansion_rules"])
    code = "".join(file.read_text(encoding="utf-8") for file in _FOLDER.iterdir() if file.name.endswith(".py"))
    for name in _LISTS["expansion_rules"]:
        assert f"<{name}>" in text or f'"{name}"' in code, name
    for name in _LISTS["lists"]:
        assert f"{{{name}}}" in text or f'"{name}"' in code, name
