"""Cards in a chat: two tabs, and a question that was answered by a turn which went on."""

from __future__ import annotations

import asyncio

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AnswerState, DecisionType
from tests.chat.environment import Environment
from tests.chat.test_recovered_yes import yes_to
from tests.scripted_turns import calls


async def test_a_second_tab_reads_that_a_card_was_answered_though_its_turn_went_on(each_environment: Environment) -> None:
    environment, chat = each_environment, each_environment.chat()
    for name in ("bread", "milk"):
        await chat.send("ann", f"add {name}")
    card = [("delete_task", {"task_id": await environment.task_id(name)}) for name in ("bread", "milk")]
    # A read is left out of the card, so that the model goes on after the yes.
    ask = calls(("ask_user", {"question": "Anything else?", "reason": "missing_context"}))
    chat = environment.chat(ScriptedAdapter([calls(*card, ("list_tasks", {})), ask]))
    asked = await chat.send("ann", "delete both")
    assert asked.decision.pending_action is not None
    assert len(asked.decision.pending_action.each) == 2
    both = await asyncio.gather(*(chat.send("ann", "Yes.", answers=yes_to(asked)) for _ in range(2)), return_exceptions=True)
    answers = [one for one in both if not isinstance(one, BaseException)]
    assert [one.decision.decision_type for one in answers if one.decision.confirmed] == [DecisionType.ASK_CLARIFICATION]
    assert await environment.descriptions() == []

    late = await chat.send("ann", "Yes.", answers=yes_to(asked))
    assert late.decision.void_answer is AnswerState.USED
    assert late.reply == "That question has already been answered, so nothing was done now."
