"""The embedded model against the requests, dialogues and sentences of to-do users.

A case that fails today has `known_failure` in the data file. It is run like the others and must still fail, so that the list of
known failures stays complete and true.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from graph_agent.clock import ManualClock
from tests.acceptance.cases import Dialogue, Request, SentenceClass, load_requests, load_sentences, same_tasks
from tests.acceptance.run import SENTENCE_CLASSES, CaseResult, run_case, run_sentence
from tests.chat.environment import Environment, migrated, open_environment

# The cases share one environment, in which each has a user of its own, and therefore one event loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS = load_requests()
SENTENCES = load_sentences()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def environment(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Environment]:
    template = await migrated(tmp_path_factory.mktemp("acceptance_template"))
    async with open_environment(tmp_path_factory.mktemp("acceptance"), template, ManualClock()) as environment:
        yield environment


@pytest.mark.parametrize("case", [*REQUESTS.requests, *REQUESTS.dialogues], ids=lambda case: case.id)
async def test_the_user_gets_the_wanted_result(environment: Environment, case: Request | Dialogue) -> None:
    _check([(await run_case(environment, case), case.known_failure)])


@pytest.mark.parametrize("sentence_class", SENTENCE_CLASSES)
async def test_the_sentences_of_a_class_are_understood(environment: Environment, sentence_class: SentenceClass) -> None:
    _check(
        [
            (await run_sentence(environment, sentence_class, sentence, SENTENCES.given), sentence.known_failure)
            for sentence in SENTENCES.of(sentence_class)
        ]
    )


async def test_there_are_sixty_requests_ten_dialogues_and_150_sentences() -> None:
    assert (len(REQUESTS.requests), len(REQUESTS.dialogues)) == (60, 10)
    counts = [len(SENTENCES.of(sentence_class)) for sentence_class in SENTENCE_CLASSES]
    assert (sum(counts), min(counts)) == (150, 25)


async def test_task_lists_are_compared_with_their_alternatives_and_marks() -> None:
    assert same_tasks(["bread | buy bread", "milk"], ["milk", "buy bread"])
    assert same_tasks(["x bread | x buy bread"], ["x buy bread"])
    assert same_tasks(["milk | oat milk", "milk"], ["oat milk", "milk"])
    assert not same_tasks(["bread | buy bread"], ["bread", "buy bread"])
    assert not same_tasks(["bread", "bread"], ["bread"])
    assert not same_tasks(["bread"], ["x bread"])


def _check(verdicts: list[tuple[CaseResult, str | None]]) -> None:
    """Print every verdict, and fail if a case fails without a known reason or a known failure passes."""
    for verdict, known_failure in verdicts:
        print(verdict, f"  known failure: {known_failure}" if known_failure else "")
    assert [verdict.name for verdict, known in verdicts if not verdict.passed and not known] == [], "these cases fail"
    assert [verdict.name for verdict, known in verdicts if verdict.passed and known] == [], "remove known_failure from these"
