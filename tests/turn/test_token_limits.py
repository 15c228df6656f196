"""Limits on the tokens of a turn and of a user's day, checked before each call of the model."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.models.config import AgentEngineConfig, TokenLimits
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import Replayer
from graph_agent.testing import says
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import asks, calls, engine_of

ADD = ("add_task", {"description": "buy milk"})
TURN = "That request needs more work than one message may use. Could you break it into smaller steps?"
DAY = "You have used up what I may do for you today. Please come back tomorrow."


def with_tokens(response: LLMResponse, total: int) -> LLMResponse:
    usage = TokenUsage(prompt_tokens=total - 1, completion_tokens=1, total_tokens=total)
    return response.replace(usage=usage)


async def run(log: Database, *script: LLMResponse, clock: ManualClock, user: str = "ann", **limits: Any) -> FinishedTurn:
    """Run a turn whose script has exactly the responses that it may ask for, and replay it."""
    config = AgentEngineConfig(tokens=TokenLimits(**limits))
    engine = engine_of(*script, audit=DatabaseAuditWriter(log, clock=clock), clock=clock, ids=RandomIds(), config=config)
    turn = await engine.run(asks(user_id=user))
    texts = await engine.audit.texts(list(turn.record.header.digests.values()))
    assert (await Replayer().replay(turn.record, texts)).identical
    return turn


async def test_a_turn_that_has_used_its_tokens_asks_the_model_no_more_and_keeps_its_receipts(log: Database) -> None:
    script = [with_tokens(calls(ADD), 100), with_tokens(says("Added."), 50)]
    finished = await run(log, *script, clock=ManualClock(), turn=101)
    assert finished.decision.response_text == "Added."
    ended = await run(log, script[0], clock=ManualClock(), turn=100)
    assert ended.decision.reply == f"{TURN} Already done: Add task 'buy milk'."
    assert ended.decision.effects == ["Add task 'buy milk'"]
    assert ended.decision.outcome_category is OutcomeCategory.RATE_LIMITED
    assert ended.record.usage is not None
    assert ended.record.usage.total_tokens == 100


async def test_the_day_of_a_user_ends_in_the_configured_time_zone(log: Database) -> None:
    clock = ManualClock()  # 9:00 UTC
    zone = "Pacific/Auckland"
    hello = with_tokens(says("Hello."), 60)
    for _ in range(2):
        assert (await run(log, hello, clock=clock, day=100, time_zone=zone)).decision.reply == "Hello."
    refused = await run(log, clock=clock, day=100, time_zone=zone)
    assert (refused.decision.reply, refused.decision.outcome_category) == (DAY, OutcomeCategory.RATE_LIMITED)
    assert (await run(log, hello, clock=clock, user="bob", day=100, time_zone=zone)).decision.reply == "Hello."
    clock.advance(hours=1, minutes=59)
    assert (await run(log, clock=clock, day=100, time_zone=zone)).decision.reply == DAY
    clock.advance(minutes=1)
    assert (await run(log, hello, clock=clock, day=100, time_zone=zone)).decision.reply == "Hello."


async def test_the_tokens_of_a_turn_that_still_runs_count_in_the_day(log: Database) -> None:
    clock = ManualClock()
    audit = DatabaseAuditWriter(log, clock=clock)
    running = engine_of(with_tokens(calls(ADD), 100), audit=audit, clock=clock, ids=RandomIds())
    steps = running.step(asks(user_id="ann"))
    async for step in steps:
        if step.state == "APPEND_RESULTS":
            break
    refused = await run(log, clock=clock, day=100)
    await steps.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert refused.decision.reply == DAY


async def test_a_limit_per_day_needs_a_log_that_counts() -> None:
    engine = engine_of(config=AgentEngineConfig(tokens=TokenLimits(day=1)))
    with pytest.raises(ConfigurationError, match="needs a database"):
        await engine.prepare()
