"""The lab over HTTP: rules in the shadow are tried by whoever may read the decisions, and facts are those that were read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
from pydantic import SecretStr

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from tests.api.test_record import SECRET, headers
from tests.chat.environment import Environment
from tests.fact_lines import split

Served = Callable[[Runtime], httpx.AsyncClient]

SHADOW = """permit (principal, action, resource);
@shadow @id("no milk") forbid (principal, action, resource)
when { context.arguments has description && context.arguments.description like "*milk*" };"""
KNOWN = """- known: list_tasks() $.tasks[*].description
@id("base") permit (principal, action, resource);
@id("no other call") forbid (principal, action == Action::"add_task", resource)
when { context.result has known && context.result.known.contains("call dad") };"""


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    blocks = answer.text.replace("\r\n", "\n").split("\n\n")
    found = [dict(line.split(": ", 1) for line in block.split("\n") if line and line[0] != ":") for block in blocks]
    return [(one["event"], json.loads(one["data"])) for one in found if one]


async def test_a_trial_counts_the_decisions_that_its_caller_may_read(environment: Environment, served: Served) -> None:
    settings = {
        "jwt_secret": SecretStr(SECRET),
        "jwt_audience": "graph-agent",
        "auditor_claim": "roles=auditor",
        "secret": SecretStr("signs confirmations, and is long enough"),
    }
    client = served(environment.runtime(settings=settings, conditions=ConditionsFile(SHADOW)))
    for user, thing in (("ann", "milk"), ("ann", "oat milk"), ("ann", "rice"), ("bob", "milk")):
        body = {"content": f"add a task to buy {thing}"}
        assert (await client.post("/api/chat", json=body, headers=headers(user))).status_code == 200

    async def by_user(caller: dict[str, str], **asked: Any) -> dict[str, int]:
        answer = await client.post("/api/replay/flows", json=asked, headers=caller)
        *_, (_, figures), _ = events(answer)
        counts: dict[str, int] = figures["rules"]["no milk"]["by_user"]
        assert figures["rules"]["no milk"]["refused"] == sum(counts.values())
        return counts

    auditor = headers("eve", "auditor")
    for rules in ({}, {"conditions": SHADOW}):
        assert await by_user(auditor, rules=rules) == {"ann": 2, "bob": 1}
        assert await by_user(headers("ann"), rules=rules) == {"ann": 2}
        others = await client.post("/api/replay/flows", json={"rules": rules, "user_id": "bob"}, headers=headers("ann"))
        assert others.status_code == 403
        assert await by_user(auditor, rules=rules, user_id="bob") == {"bob": 1}
        assert await by_user(auditor, rules=rules, last=2) == {"bob": 1}
    assert await by_user(auditor, rules={"conditions": SHADOW.replace("*milk*", "*rice*")}) == {"ann": 1}
    assert (await client.post("/api/replay/flows", json={})).status_code == 401


async def test_a_rule_about_a_fact_decides_in_the_lab_by_what_the_decision_has_read(
    environment: Environment, served: Served
) -> None:
    client = served(environment.runtime(conditions=ConditionsFile(KNOWN)))
    for text in ("add a task to call mom", "add a task to buy milk"):
        assert (await client.post("/api/chat", json={"content": text})).status_code == 200

    async def flow(conditions: str) -> tuple[str, str, str | None]:
        facts, rules = split(conditions)
        asked = {"last": 1, "rules": {"constitution": facts + Constitution.load().text, "conditions": rules}}
        [item] = events(await client.post("/api/replay/flows", json=asked))[1][1]["items"]
        return item["before"], item["after"], item["why"]

    assert await flow(KNOWN) == ("runs", "runs", None)
    read = ("runs", "refused", 'no other call (known = ["call mom"])')
    assert await flow(KNOWN.replace("call dad", "call mom")) == read
    renamed = KNOWN.replace("call dad", "call mom").replace("known", "others")
    assert await flow(renamed) == (*read[:2], read[2].replace("known", "others"))
    assert await flow(KNOWN.replace('.contains("call dad")', ' == ["call mom"]')) == read
    not_read = "EXECUTE_TOOLS: undecidable: this decision did not read "
    assert await flow(KNOWN.replace("description", "status")) == ("runs", "unknown", f"{not_read}known")
    assert await flow(KNOWN.replace("list_tasks()", "last list_tasks")) == ("runs", "unknown", f"{not_read}known")


async def test_a_rule_is_said_to_have_changed_nothing_only_in_decisions_that_were_made_with_it(
    environment: Environment, served: Served
) -> None:
    without = served(environment.runtime())
    assert (await without.post("/api/chat", json={"content": "add a task to buy milk"})).status_code == 200
    client = served(environment.runtime(conditions=ConditionsFile(SHADOW)))
    *_, (_, before), _ = events(await client.post("/api/replay/flows", json={}))
    assert (before["decisions"], before["rules"]["no milk"]["judged"]) == (1, 0)
    assert (await client.post("/api/chat", json={"content": "add a task to buy rice"})).status_code == 200
    *_, (_, after), _ = events(await client.post("/api/replay/flows", json={}))
    assert (after["decisions"], after["rules"]["no milk"]["judged"]) == (2, 1)
    *_, (_, edited), _ = events(await client.post("/api/replay/flows", json={"rules": {"conditions": SHADOW}}))
    assert (edited["rules"]["no milk"]["judged"], edited["rules"]["no milk"]["refused"]) == (2, 1)
