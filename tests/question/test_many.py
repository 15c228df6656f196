"""Questions beside very many others: the newest one is shown, and is carried out by the next server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.questions import fill
from graph_agent.chat.service import ChatService
from graph_agent.db import Database
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.llm import FunctionCall
from graph_agent.question import inbox
from graph_agent.question.transitions import Questions
from tests.question.processes.environment import KEY, STRICT, USUAL, LedgerServer, open_chat

_MANY = 1_200


async def answer(chat: ChatService, request: Any, person: str, role: str) -> None:
    assert chat.approvals is not None
    given: dict[str, Any] = {"approve": True, "digest": request.digest, "identity": ApproverIdentity.TOKEN}
    await chat.approvals.answer(request.id, person, [role], **given)
    await chat.approvals.closings()


async def test_the_newest_of_many_requests_is_shown_and_carried_out(migrated_database: Database, tmp_path: Path) -> None:
    fill(migrated_database, _MANY, "support")
    tools = LedgerServer(folder=tmp_path, rules=USUAL)
    asking, other, server = (open_chat(migrated_database, tools, rules) for rules in (USUAL, STRICT, USUAL))
    asked = await asking.call("ann", [FunctionCall(name="add_task", arguments={"description": "bread"})])
    request = asked.decision.approval
    assert request is not None
    store = Questions(migrated_database, record_key=KEY)
    page = migrated_database.read_now(lambda connection: inbox.waiting_for(store, connection, "bob", ["manager"]))
    assert [one.id for one in page.questions] == [request.id]
    # A process whose rules refuse the call stores the answers, and carries nothing out.
    await answer(other, request, "bob", "manager")
    await answer(other, request, "joe", "manager")
    assert list(tools.effects()) == []
    await server.serve_due()
    assert [effect.target for effect in tools.effects()] == ["bread"]
    for chat in (asking, other, server):
        await chat.aclose()
