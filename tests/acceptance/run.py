"""The runner of the cases. `python -m tests.acceptance.run` prints the verdict on each case and the figures.

With `--table` it prints the verdicts in Markdown.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from graph_agent.clock import ManualClock
from graph_agent.ports import LLMAdapter
from graph_agent.task_server.models import Task, TaskStatus
from graph_agent.task_server.store import list_newest_first
from tests.acceptance.cases import Dialogue, Outcome, Request, Sentence, SentenceClass, load_requests, load_sentences
from tests.chat.environment import Environment, migrated, open_environment
from tests.permission import permitted


class User:
    """One user with tasks and one conversation."""

    def __init__(self, environment: Environment, user_id: str, model: LLMAdapter | None = None) -> None:
        self._environment = environment
        self._chat = environment.chat(model)
        self._id = user_id
        self._conversation: str | None = None

    async def has(self, given: list[str]) -> None:
        """Store the tasks `given`, the first of the printed list first; "x " marks a completed one."""
        for text in reversed(given):
            description = text.removeprefix("x ")
            added = await self._environment.tools.execute(permitted("add_task", {"description": description}, self._id))
            assert added.success, added.error
            if text != description:
                newest, *_ = await self._stored()
                done = await self._environment.tools.execute(permitted("complete_task", {"task_id": newest.id}, self._id))
                assert done.success, done.error

    async def tasks(self) -> list[str]:
        """Return the user's tasks in the order of the printed list; "x " marks a completed one."""
        return [
            f"x {task.description}" if task.status is TaskStatus.COMPLETED else task.description
            for task in await self._stored()
        ]

    async def say(self, text: str) -> Outcome:
        """Send a message in the user's conversation."""
        answer = await self._chat.send(self._id, text, conversation_id=self._conversation)
        self._conversation = answer.conversation_id
        return Outcome(answer.decision, await self.tasks())

    async def _stored(self) -> list[Task]:
        return await self._environment.database.read(lambda connection: list_newest_first(connection, self._id))


SENTENCE_CLASSES: tuple[SentenceClass, ...] = get_args(SentenceClass)


@dataclass
class CaseResult:
    """The transcript of a case and its problems; the case passed if there are none."""

    name: str
    problems: list[str] = field(default_factory=list)
    transcript: list[tuple[str, Outcome]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        said = "\n".join(f"  > {message}\n    {outcome}" for message, outcome in self.transcript)
        return "\n".join(
            [f"{'pass' if self.passed else 'FAIL'}  {self.name}", said, *(f"  ! {text}" for text in self.problems)]
        )


async def run_case(environment: Environment, case: Request | Dialogue, model: LLMAdapter | None = None) -> CaseResult:
    """Have a new user type the messages of `case`, and judge each reply and the tasks after it."""
    user, verdict = User(environment, case.id, model), CaseResult(case.id)
    await user.has(case.given)
    for number, turn in enumerate(case.turns, 1):
        before = await user.tasks()
        outcome = await user.say(turn.say)
        verdict.transcript.append((turn.say, outcome))
        verdict.problems += [f"message {number}: {problem}" for problem in turn.problems(before, outcome)]
    return verdict


async def run_sentence(
    environment: Environment, sentence_class: SentenceClass, sentence: Sentence, given: list[str]
) -> CaseResult:
    """Have a new user type `sentence` in a new conversation, and judge the result by its class."""
    user, verdict = User(environment, f"{sentence_class}: {sentence.say}"), CaseResult(f"{sentence_class}: {sentence.say}")
    before = sentence.given(sentence_class, given)
    await user.has(before)
    outcome = await user.say(sentence.say)
    verdict.transcript.append((sentence.say, outcome))
    problem = sentence.problem(sentence_class, before, outcome)
    verdict.problems += [problem] if problem else []
    return verdict


async def run_all() -> dict[str, list[CaseResult]]:
    """Run every case in one environment; return the verdicts by group."""
    requests, sentences = load_requests(), load_sentences()
    groups: dict[str, list[CaseResult]] = {}
    with tempfile.TemporaryDirectory() as folder:
        template = await migrated(Path(folder) / "template")
        async with open_environment(Path(folder) / "environment", template, ManualClock()) as environment:
            groups["requests"] = [await run_case(environment, case) for case in requests.requests]
            groups["dialogues"] = [await run_case(environment, case) for case in requests.dialogues]
            for name in SENTENCE_CLASSES:
                groups[name] = [await run_sentence(environment, name, one, sentences.given) for one in sentences.of(name)]
    return groups


def table(verdicts: Sequence[CaseResult]) -> str:
    """Return the verdicts as a table in Markdown."""
    rows = [
        f"| {_cell(verdict.name)} | {_cell(' ⏵ '.join(message for message, _ in verdict.transcript))} "
        f"| {'pass' if verdict.passed else '**fail**'} |"
        for verdict in verdicts
    ]
    return "\n".join(["| case | messages | verdict |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main(arguments: Sequence[str]) -> None:
    groups = asyncio.run(run_all())
    for name, verdicts in groups.items():
        print(f"\n## {name}: {sum(verdict.passed for verdict in verdicts)} of {len(verdicts)}\n")
        print(table(verdicts) if "--table" in arguments else "\n".join(map(str, verdicts)))


if __name__ == "__main__":
    main(sys.argv[1:])
