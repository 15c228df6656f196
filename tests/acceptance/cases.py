"""The cases of the acceptance test of the embedded model, and the judge of what a case ended with.

The cases are in `user_requests.yaml` and `user_sentences.yaml`, whose first lines describe the fields.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from graph_agent.models.decision import AgentDecision, DecisionType

FOLDER = Path(__file__).parent

Kind = Literal["done", "answer", "ask", "confirm", "decline", "cancel", "failed"]
SentenceClass = Literal["add", "show", "delete", "complete", "unrelated"]

_SIMPLE_KINDS: dict[DecisionType, Kind] = {
    DecisionType.ASK_CLARIFICATION: "ask",
    DecisionType.REQUEST_CONFIRMATION: "confirm",
    DecisionType.CANCEL_PENDING: "cancel",
    DecisionType.RESPOND_ONLY: "answer",
}


class _CaseModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Outcome:
    """The end of one message: the decision, and the user's tasks in the order of the printed list."""

    decision: AgentDecision
    tasks: list[str]

    @property
    def text(self) -> str:
        """The text that the user reads."""
        return "\n".join([self.decision.reply, *self.decision.notices])

    @property
    def kind(self) -> Kind:
        category = self.decision.outcome_category
        if category is None or category.category == "ERROR":
            return "failed"
        if category.category == "REFUSAL":
            return "decline"
        return _SIMPLE_KINDS.get(self.decision.decision_type, "done")

    def __str__(self) -> str:
        return f"[{self.kind}] {self.text}\n    tasks: {self.tasks}"


class Expectation(_CaseModel):
    """The result of one message that serves the user."""

    say: str
    wants: str
    after: list[str] | None = None
    or_after: list[list[str]] = Field(default_factory=list)
    kind: list[Kind] = Field(default_factory=list)
    says: list[str] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    calls: Literal["none"] | None = None

    def problems(self, before: list[str], outcome: Outcome) -> list[str]:
        """Return the differences between this expectation and `outcome`; `before` are the tasks before the message."""
        accepted = [before if self.after is None else self.after, *self.or_after]
        found = []
        if not any(same_tasks(tasks, outcome.tasks) for tasks in accepted):
            found.append(f"the tasks should be {' or '.join(map(str, accepted))}")
        if self.kind and outcome.kind not in self.kind:
            found.append(f"the reply should be of kind {' or '.join(self.kind)}")
        found += [f"the reply should contain {text!r}" for text in self.says if not _contains(outcome.text, text)]
        found += [f"the reply should not contain {text!r}" for text in self.never if _contains(outcome.text, text)]
        if self.calls == "none" and outcome.decision.tool_calls:
            found.append("no tool should be called")
        return found


class Request(Expectation):
    """One message of a user in a new conversation."""

    id: str
    known_failure: str | None = None
    given: list[str]

    @property
    def turns(self) -> list[Expectation]:
        return [self]


class Dialogue(_CaseModel):
    """Several messages of a user in one conversation."""

    id: str
    known_failure: str | None = None
    given: list[str]
    turns: list[Expectation] = Field(min_length=3, max_length=8)


class Sentence(_CaseModel):
    """One sentence and the task that it is about."""

    say: str
    task: str | None = None
    known_failure: str | None = None

    def problem(self, sentence_class: SentenceClass, given: list[str], outcome: Outcome) -> str | None:
        """Return the reason why `outcome` is wrong for a sentence of this class, or None if it is right."""
        if sentence_class == "unrelated":
            return "a tool was called" if outcome.decision.tool_calls else None
        if not same_tasks(self._tasks_after(sentence_class, given), outcome.tasks):
            return "the tasks are not those that the user wants"
        if sentence_class == "delete":
            return self._deletion_problem(outcome)
        if outcome.kind != "done":
            return "the request was not carried out"
        if sentence_class == "show" and not all(task in outcome.text for task in given) and "2" not in outcome.text:
            return "the list was not shown"
        return None

    def _deletion_problem(self, outcome: Outcome) -> str | None:
        if self.task is None:
            return None if _contains(outcome.text, "one (task )?at a time") else "the limit to one task is not explained"
        pending = outcome.decision.pending_action
        asked = "" if pending is None else pending.description
        return None if asked == f"Delete task '{self.task}'" else "the user was not asked before this task is deleted"

    def given(self, sentence_class: SentenceClass, given: list[str]) -> list[str]:
        """Return the tasks that the user of this sentence has beforehand."""
        return [given[0], self.task, *given[1:]] if self.task and sentence_class in ("delete", "complete") else given

    def _tasks_after(self, sentence_class: SentenceClass, given: list[str]) -> list[str]:
        if sentence_class == "add":
            return [*given, self.task or ""]
        if sentence_class == "complete":
            return [f"x {task}" if task == self.task else task for task in given]
        return given


class Requests(_CaseModel):
    """The file `user_requests.yaml`."""

    requests: list[Request]
    dialogues: list[Dialogue]


class Sentences(_CaseModel):
    """The file `user_sentences.yaml`."""

    given: list[str]
    add: list[Sentence]
    show: list[Sentence]
    delete: list[Sentence]
    complete: list[Sentence]
    unrelated: list[Sentence]

    @field_validator("show", "unrelated", mode="before")
    @classmethod
    def _plain_text_is_a_sentence(cls, value: list[Any]) -> list[Any]:
        return [{"say": item} if isinstance(item, str) else item for item in value]

    def of(self, sentence_class: SentenceClass) -> list[Sentence]:
        sentences: list[Sentence] = getattr(self, sentence_class)
        return sentences


def load_requests() -> Requests:
    return TypeAdapter(Requests).validate_python(yaml.safe_load((FOLDER / "user_requests.yaml").read_text("utf-8")))


def load_sentences() -> Sentences:
    return TypeAdapter(Sentences).validate_python(yaml.safe_load((FOLDER / "user_sentences.yaml").read_text("utf-8")))


def same_tasks(expected: list[str], found: list[str]) -> bool:
    """Compare two task lists in any order; an expected text may list alternatives, separated by " | "."""
    left = Counter(found)
    # Texts without alternatives take their task first, so that an alternative cannot take the task of an exact text.
    for texts in sorted((text.split(" | ") for text in expected), key=len):
        match = next((text for text in _alternatives(texts) if left[text]), None)
        if match is None:
            return False
        left[match] -= 1
    return not left.total()


def _alternatives(texts: list[str]) -> list[str]:
    """Return the alternatives; the mark "x " of the first one holds for all of them."""
    mark = "x " if texts[0].startswith("x ") else ""
    return [mark + text.removeprefix("x ") for text in texts]


def _contains(text: str, pattern: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
