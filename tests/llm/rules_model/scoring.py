"""Scores of the embedded model on labelled sentences, requests and dialogues."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from tests.llm.rules_model.environment import Environment, Turn

UNSEEN = Path(__file__).parent / "unseen"
UNRELATED_COUNT = 10_000
TASKS = ("buy milk", "call mom", "pay rent", "water the plants", "book dentist appointment")
"""The list, newest first, that the labelled sentences are about."""


@dataclass
class Score:
    """The result for one set; `failures` are the sentences that were not handled as labelled."""

    name: str
    count: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, sentence: str, failure: str | None) -> None:
        self.count += 1
        if failure:
            self.failures.append(f"{sentence} -- {failure}")

    @property
    def share(self) -> float:
        return 1 - len(self.failures) / max(self.count, 1)

    def __str__(self) -> str:
        right = self.count - len(self.failures)
        return f"{self.name:24} {right:6} of {self.count:6}  {100 * right / max(self.count, 1):6.2f} %"


async def measure_commands(kind: str, lines: list[str], name: str) -> Score:
    score = Score(name)
    for line in lines:
        text, *labels = line.split(" => ")
        # A label that is none of the tasks is a task of its own.
        own = [_task(label) for label in labels[:1] if kind in {"complete", "delete"} and _task(label) not in TASKS]
        environment = Environment.of(*TASKS, *own)
        turn = await environment.says(text)
        score.add(text, _CHECKS[kind](environment, turn, labels))
    return score


async def measure_unrelated(sentences: list[str]) -> tuple[Score, Score]:
    """Return the scores of no mutating call and of no call at all."""
    changes, calls = Score("unrelated: no change"), Score("unrelated: no call")
    for text in sentences:
        turn = await Environment.of(*TASKS).says(text)
        called = ", ".join(turn.called)
        changes.add(text, called if turn.mutated else None)
        calls.add(text, called or None)
    return changes, calls


async def measure_requests(cases: list[dict[str, Any]], name: str) -> Score:
    score = Score(name)
    for case in cases:
        environment = Environment.of(*case["tasks"])
        for message in case["say"]:
            turn = await environment.says(message)
        score.add(" / ".join(case["say"]), _difference(case, environment, turn))
    return score


async def measure_dialogues(cases: list[dict[str, Any]], name: str) -> Score:
    score = Score(name)
    for case in cases:
        environment = Environment.of(*case["tasks"])
        failures = []
        for expected in case["turns"]:
            turn = await environment.says(expected["say"])
            if failure := _difference(expected, environment, turn):
                failures.append(f"{expected['say']}: {failure}")
        score.add(" / ".join(turn["say"] for turn in case["turns"]), "; ".join(failures) or None)
    return score


async def measure_recorded(path: Path) -> list[Score]:
    """The recorded sentences, with the labels that their README explains."""
    scores = {kind: Score(f"recorded: {kind}") for kind in ("add", "list", "remove", "other")}
    for case in _cases(path):
        turn = await Environment.of(*TASKS).says(case["text"])
        asked = turn.kind in {"question", "confirm"} and not set(turn.called) - {"list_tasks", "delete_task"}
        right = {
            "add": turn.called == ["add_task"] or (turn.reason == "missing_context" and not turn.called),
            "list": turn.called == ["list_tasks"] and turn.kind == "answer",
            "remove": asked or (turn.kind == "refusal" and not turn.mutated),
            "other": not turn.called,
        }[case["expect"]]
        scores[case["expect"]].add(case["text"], None if right else f"{turn.kind} {turn.called}: {turn.text}")
    return list(scores.values())


def unrelated_sentences(recorded: Path | None) -> list[str]:
    """10,000 sentences: the written ones, the recorded ones if there are any, and evenly spread ones from the templates."""
    sentences = read_lines(UNSEEN / "unrelated.txt")
    if recorded is not None:
        sentences += [case["text"] for case in _cases(recorded) if case["expect"] == "other"]
    generated = list(generate(read_lines(UNSEEN / "unrelated_templates.txt")))
    missing = UNRELATED_COUNT - len(sentences)
    return sentences + [generated[number * len(generated) // missing] for number in range(missing)]


def generate(lines: list[str]) -> Iterator[str]:
    """Fill every slot of every template with every value."""
    values = {name: rest.split(" | ") for line in lines if " = " in line for name, rest in [line.split(" = ", 1)]}
    for line in lines:
        if " = " not in line and not line.startswith("#"):
            slots = re.findall(r"\{(\w+)\}", line)
            for filling in product(*(values[slot] for slot in slots)):
                yield re.sub(r"\{\w+\}", "{}", line).format(*filling)


def _difference(expected: dict[str, Any], environment: Environment, turn: Turn) -> str | None:
    for name, tasks in (("pending", environment.open), ("done", environment.done)):
        if expected.get(name) is not None and sorted(tasks) != sorted(expected[name]):
            return f"{name} {tasks}; {turn.kind}: {turn.text}"
    kinds = {"ask": "question", "decline": "refusal"}
    if expected.get("kind") and turn.kind not in [kinds.get(kind, kind) for kind in expected["kind"].split("|")]:
        return f"{turn.kind}: {turn.text}"
    text = turn.text.casefold()
    missing = [word for word in expected.get("reply") or () if word.casefold() not in text]
    surplus = [word for word in expected.get("not_reply") or () if word.casefold() in text]
    return f"reply {turn.text!r}: missing {missing}, surplus {surplus}" if missing or surplus else None


def _check_add(environment: Environment, turn: Turn, labels: list[str]) -> str | None:
    if labels == ["?"]:
        return None if turn.kind == "question" and not turn.mutated else f"{turn.kind} {turn.called}"
    added = [text for text in environment.open if text not in TASKS]
    wanted = {_plain(label) for label in labels[0].split(" | ")}
    return None if len(added) == 1 and _plain(added[0]) in wanted else f"added {added}; {turn.kind}: {turn.text}"


def _check_show(_environment: Environment, turn: Turn, _labels: list[str]) -> str | None:
    return None if turn.called == ["list_tasks"] and turn.kind == "answer" else f"{turn.kind} {turn.called}: {turn.text}"


def _check_delete(_environment: Environment, turn: Turn, labels: list[str]) -> str | None:
    named = turn.kind == "confirm" and f"'{_task(labels[0])}'" in turn.text
    return None if named else f"{turn.kind} {turn.called}: {turn.text}"


def _check_complete(environment: Environment, turn: Turn, labels: list[str]) -> str | None:
    return None if environment.done == [_task(labels[0])] else f"{turn.kind} {turn.called}: {turn.text}"


def _check_update(environment: Environment, turn: Turn, labels: list[str]) -> str | None:
    wanted = [labels[1] if task == _task(labels[0]) else task for task in TASKS]
    return None if environment.open == wanted else f"{environment.open} {turn.kind}: {turn.text}"


_NO_SETS = {"ambiguous", "unrelated", "unrelated_templates"}
_CHECKS: dict[str, Callable[[Environment, Turn, list[str]], str | None]] = {
    "add": _check_add,
    "show": _check_show,
    "delete": _check_delete,
    "complete": _check_complete,
    "update": _check_update,
}


def _task(label: str) -> str:
    return TASKS[int(label[1:]) - 1] if label.startswith("#") else label


def _plain(text: str) -> str:
    return re.sub(r"^(?:the|my|a|an) ", "", text.casefold())


def read_lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _cases(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_lines(path)]


async def measure(wanted: list[str], recorded: Path | None) -> list[Score]:
    """Measure the sets named in `wanted`, or all of them."""
    names = wanted or [path.stem for path in sorted(UNSEEN.iterdir()) if path.stem not in _NO_SETS]
    names = names if wanted else [*names, *(["recorded"] if recorded else []), "unrelated"]
    scores: list[Score] = []
    for name in names:
        kind = name.partition("_")[0]
        if kind in _CHECKS:
            scores.append(await measure_commands(kind, read_lines(UNSEEN / f"{name}.txt"), name))
        elif kind == "requests":
            scores.append(await measure_requests(_cases(UNSEEN / f"{name}.jsonl"), name))
        elif kind == "dialogues":
            scores.append(await measure_dialogues(_cases(UNSEEN / f"{name}.jsonl"), name))
        elif kind == "recorded" and recorded is not None:
            scores += await measure_recorded(recorded)
        elif kind == "unrelated":
            scores += await measure_unrelated(unrelated_sentences(recorded))
    return scores
