"""Random conditions over facts and random results: the guard, a replay and an independent reference decide alike.

`python -m tests.turn.test_random_facts 1000000` checks more cases, as `make nightly` does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult
from graph_agent.policy.call_in_hand import GuardVerdict
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.testing import OrderDesk, says
from graph_agent.words.reasons import for_model
from tests.desk import CONSTITUTION, ORDER, cancel, conversation, forbid, policy
from tests.fact_lines import split
from tests.fact_reading import OneAnswer, facts_of
from tests.judging import judge_batch
from tests.scripted_turns import calls, done, failed
from tests.turn.facts_reference import ABSENT, REASONS, UNKNOWN, Rules, random_order, random_rules, with_holes

CASES = 10_000
_CASES_OF_POLICY = 25
TURNS = 60
"""The cases that are whole turns, with their replays; the others are judged by the guard alone."""
_SCOPE = 'principal, action == Action::"cancel_order", resource'
_VERDICTS = {
    CallDisposition.REFUSED: "refused",
    CallDisposition.AWAITING: "awaiting",
    CallDisposition.EXECUTED: "permitted",
}


def text_of(rules: Rules) -> str:
    """Return the conditions file with these declarations and rules."""
    texts = []
    for number, rule in enumerate(rules.rules):
        if rule.kind == "unless":
            texts.append(forbid(f"rule {number}", "cancel_order", rule.clause))
        else:
            yes = " unless { context.confirmed }" if rule.kind == "asks" else ""
            texts.append(f'@id("rule {number}") forbid ({_SCOPE}) when {{ {rule.clause} }}{yes};')
    declared = [f"- {name}: {fact}\n" for name, fact in rules.declared.items()]
    return policy("".join([ORDER, *declared]), *texts)


def random_result(dice: random.Random) -> tuple[ToolResult, Any]:
    """Return what a server answers to the read of an order, and the JSON that facts are taken from, UNKNOWN or ABSENT."""
    order = random_order(dice)
    match dice.randrange(9):
        case 0 | 1 | 2:
            return done(order), order
        case 3:
            return failed(ToolErrorCode.NOT_FOUND), ABSENT
        case 4 | 5:
            holed = with_holes(dice, order, dice.randint(1, 3))
            holed = holed if isinstance(holed, dict | list | None) else {"result": holed}
            return ToolResult(success=True, data=holed), holed
        case 6:
            codes = [code for code in ToolErrorCode if code is not ToolErrorCode.NOT_FOUND]
            error = dice.choice([failed(dice.choice(codes)), ToolResult(success=False, error="an error of the server")])
            return error, UNKNOWN
        case 7:
            cut = {**order, "left_out": {"bytes": 300_000}}
            other = dice.choice([None, [], [order], {}, {"result": order}, {"order": order}, cut])
            return ToolResult(success=True, data=other), UNKNOWN if other is cut else other
    return _in_text(dice, order)


def _in_text(dice: random.Random, order: dict[str, Any]) -> tuple[ToolResult, Any]:
    """Return a result that is a text, and what it is read as: the object in it, if it is the text of one."""
    whole = json.dumps(order)
    twice = f'{whole[:-1]}, "status": "pending"}}'
    text = dice.choice([whole, twice, "", "no order", json.dumps([order]), "{", whole[:-1], "null", '{"status": NaN}'])
    # A structured text is no JSON of the server's.
    is_structured = dice.random() < 0.3
    kinds = (ContentKind.STRUCTURED, ContentKind.TEXT) if is_structured else (ContentKind.TEXT,)
    result = ToolResult(success=True, data={"text": text}, content=[ContentItem(kind=kind) for kind in kinds])
    return result, order if text == whole and not is_structured else {"text": text}


def policy_of(rules: str) -> CompiledPolicy:
    desk = OrderDesk()
    traits = {tool.name: desk.traits(tool.name) for tool in desk.declarations()}
    facts, rules = split(rules)
    policy = compile_policy(Constitution.parse(f"{CONSTITUTION}\n{facts}"), desk.declarations(), traits)
    found = policy.with_conditions(ConditionsFile(rules))
    assert found.conditions is not None
    found.conditions.require_valid()
    return found


def judged(rules: CompiledPolicy, call: FunctionCall, ports: OneAnswer) -> GuardVerdict:
    """Return what the guard decides about a call whose reads have this answer."""
    known = facts_of(rules, call, ports)
    (found,) = judge_batch([call], policy=rules, user_id="ann", decision_id="d", max_calls_per_turn=5, results=known)
    return found


def check(seeds: Sequence[int]) -> Counter[str]:
    """Check that the guard decides as the reference does, and a recorded read as the read itself; return the verdicts."""
    verdicts: Counter[str] = Counter()
    compiled: dict[int, tuple[Rules, CompiledPolicy]] = {}
    for seed in seeds:
        dice = random.Random(seed)
        number = seed // _CASES_OF_POLICY
        if number not in compiled:
            rules = random_rules(random.Random(number))
            compiled = {number: (rules, policy_of(text_of(rules)))}
        rules, made = compiled[number]
        assert made.conditions is not None
        result, json_of_it = random_result(dice)
        call = FunctionCall(*cancel("W1", **_random_reason(dice)))
        ports = OneAnswer(result)
        found = judged(made, call, ports)
        expected = rules.verdict(rules.values(json_of_it, call.arguments))
        assert _VERDICTS[found.disposition] == expected, (seed, text_of(rules), result, for_model(found.reason))
        recorded = [FactRead.model_validate_json(json.dumps(read.to_json())) for read in ports.made]
        again = judged(made, call, OneAnswer(recorded[0] if recorded else result))
        assert (found.disposition, for_model(found.reason)) == (again.disposition, for_model(again.reason)), seed
        verdicts[expected] += 1
    return verdicts


def _random_reason(dice: random.Random) -> dict[str, str]:
    reason = dice.choice(REASONS)
    return {} if reason is None else {"reason": reason}


async def check_turns(seeds: Sequence[int]) -> None:
    """Run whole turns: what the record says decides a replay, which `Conversation` makes of each turn."""
    for seed in seeds:
        dice = random.Random(seed)
        desk, rules = OrderDesk(), random_rules(dice)
        result, json_of_it = random_result(dice)
        desk.answers = {"get_order": lambda _, result=result: result, "cancel_order": lambda _: done()}  # type: ignore[misc]
        first, other = dice.sample([{}, *({"reason": one} for one in REASONS if one)], 2)
        run = conversation(text_of(rules), calls(cancel("W1", **first), cancel("W1", **other)), says("."), says("."), desk=desk)
        await run.say()
        expected = [rules.verdict(rules.values(json_of_it, {"order_id": "W1", **given})) for given in (first, other)]
        if "awaiting" not in expected:
            assert len(desk.changes) == expected.count("permitted"), seed


def test_random_conditions_and_results_decide_as_the_reference_and_a_record_do() -> None:
    verdicts = check(range(CASES))
    assert min(verdicts[verdict] for verdict in _VERDICTS.values()) > CASES // 100


async def test_random_turns_with_facts_replay_identically() -> None:
    await check_turns(range(TURNS))


if __name__ == "__main__":
    number = int(sys.argv[1])
    print(f"{number:,} cases decided as the reference does: {dict(sorted(check(range(number)).items()))}")
    asyncio.run(check_turns(range(number // 1000)))
