"""The undo of a change over HTTP while the server that makes it is killed at a commit, of its question or of its yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.chat.conversations.tables import TurnState, turns
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import DecisionRecord
from graph_agent.question.tables import questions
from graph_agent.record.tables import call_operations
from graph_agent.record.tamper.verify import verify_log
from graph_agent.settings import read_settings
from tests.chat.address_server import BEFORE, CHANGED, AddressServer, serving_addresses
from tests.chat.killed_servers import (
    Kill,
    KilledServers,
    open_later,
    posted,
    postgresql_servers,
    settings_of,
    sqlite_server,
    url_of,
)

_MAX_COMMITS = 40
"""An upper bound of the commits of the question, of the yes and of the undo."""
_NOT_KNOWN = "Not known whether this was done"


@dataclass
class Desk:
    """The servers, and the changes that are to be undone there."""

    servers: KilledServers
    database: Database
    addresses: AddressServer
    changes: Mapping[str, str]
    """The decisions that have made them, by the name of the round."""
    played: list[Kill] = field(default_factory=list)

    async def play(self, one: Kill) -> bool:
        """Undo a change in one tab, kill a server meanwhile, and undo it in a second tab too; True if one was killed."""
        self.played.append(one)
        urls = [url_of(replica) for replica in self.servers.replicas]

        async def is_over() -> bool:
            return tab.done()

        await self.servers.arm(one)
        tab = asyncio.create_task(self._undo(urls, one, "first"))
        was_killed = await self.servers.kill(is_over)
        await self._expire_leases()
        await asyncio.gather(tab, self._undo(urls[::-1], one, "second"))
        return was_killed

    async def _undo(self, urls: Sequence[str], one: Kill, tab: str) -> None:
        """Ask for the undo and say yes, with the same keys until there is an answer."""
        path = f"/api/decisions/{self.changes[one.name]}/undo"
        asked = await posted(urls, one.name, path, None, key=f"{tab}-asks")
        if "error" in asked:
            assert asked["error"]["code"] == ServiceErrorCode.NOT_UNDOABLE, asked
        elif (pending := asked["decision"]["pending_action"]) is not None:
            answers = {"pending_action": pending["id"], "yes": True}
            answer = await posted(urls, one.name, "/api/chat", {"answers": answers}, key=f"{tab}-confirms")
            assert "decision" in answer, answer

    async def _expire_leases(self) -> None:
        """Let the time pass after which another process takes over a turn."""
        ended = {"lease_until": self.database.time(timedelta(seconds=-1))}
        running = turns.c.state == TurnState.RUNNING
        await self.database.write(lambda connection: connection.execute(update(turns).where(running).values(ended)))

    async def check(self, runtime: Runtime, one: Kill) -> str:
        """Check that one decision has undone the change, once, and says so. Return the state of its call."""
        changed, order = self.changes[one.name], one.name
        [(undone_by, state)] = await self._undos(changed)
        # One question was used up by a yes: by the decision that has undone it.
        used = select(questions.c.closed_by).where(questions.c.user_id == order, questions.c.state == "approved")
        assert await self.database.read(lambda connection: list(connection.execute(used).scalars())) == [undone_by], one
        effects = self.addresses.effects[order, BEFORE]
        record = await runtime.audit.load(undone_by)
        assert isinstance(record, DecisionRecord)
        said = str(await runtime.chat.conversation(one.name, record.header.context.conversation_id))
        if self.addresses.keyed:
            assert (state, effects) == ("done", 1), (one, state, effects)
        assert effects == 1 or (effects, state) == (0, "unknown"), (one, state, effects)
        assert self.addresses.streets[order] == (BEFORE if effects else CHANGED)
        [call] = record.invocations
        assert call.success == bool(record.decision.effects), (one, record.decision)
        assert call.success == (state == "done") or (call.tool_result.unknown and self.addresses.keyed), (one, call)
        assert (_NOT_KNOWN in str(record.decision)) == (_NOT_KNOWN in said) == call.tool_result.unknown, (one, said)
        with pytest.raises(ServiceError, match=f"decision {undone_by} has undone it already") as refused:
            await runtime.chat.undo(one.name, changed)
        assert refused.value.code is ServiceErrorCode.NOT_UNDOABLE
        return state

    async def _undos(self, decision_id: str) -> list[tuple[str, str]]:
        """Return the decisions that have undone the call of a decision, or may have, with the states of their calls."""
        rows = call_operations.c
        wanted = select(rows.decision_id, rows.state).where(rows.undoes == f"{decision_id}:1", rows.state != "void")
        found = await self.database.read(lambda connection: connection.execute(wanted).all())
        return [(row.decision_id, str(row.state)) for row in found]


async def change(settings: Mapping[str, str], rounds: Sequence[Kill]) -> dict[str, str]:
    """Make a change for each round, of a user and an order of its own; return the decisions."""
    async with open_runtime(read_settings(settings), model="embedded") as runtime:
        made = {}
        for one in rounds:
            move = FunctionCall(name="set_address", arguments={"order_id": one.name, "address": CHANGED})
            made[one.name] = (await runtime.chat.call(one.name, [move])).decision_id
        return made


@asynccontextmanager
async def opened(
    folder: Path, settings: Mapping[str, str], rounds: Sequence[Kill], addresses: AddressServer
) -> AsyncIterator[Desk]:
    url = settings["DATABASE_URL"]
    servers: Any = sqlite_server(folder, settings)
    if url.startswith("postgresql"):
        servers = postgresql_servers(folder, url, settings)
    changes, database = await change(settings, rounds), Database.open(url)
    try:
        async with servers as running:
            yield Desk(running, database, addresses, changes)
    finally:
        await database.close()


SOME = [Kill(2, after=True), Kill(5, after=False)]
ALL = list(chain.from_iterable((Kill(n, after=False), Kill(n, after=True)) for n in range(1, _MAX_COMMITS)))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "rounds", [pytest.param(SOME, id="two"), pytest.param(ALL, id="every commit", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("keyed", [pytest.param(True, id="keyed", marks=pytest.mark.slow), pytest.param(False, id="plain")])
@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.slow])])
async def test_a_change_is_undone_once_whichever_commit_of_its_undo_kills_the_server(
    tmp_path: Path, request: pytest.FixtureRequest, url: str, keyed: bool, rounds: Sequence[Kill]
) -> None:
    database = f"sqlite:///{tmp_path / 'desk.db'}" if url == "sqlite" else request.getfixturevalue("migrated_postgresql_url")
    async with serving_addresses(keyed=keyed) as addresses:
        (tmp_path / "constitution.md").write_text(addresses.constitution, encoding="utf-8")
        listed = {"mcpServers": {"desk": {"url": addresses.address.url}}}
        (tmp_path / "mcp.json").write_text(json.dumps(listed), encoding="utf-8")
        files = {"GRAPH_AGENT_CONSTITUTION": "constitution.md", "GRAPH_AGENT_MCP": "mcp.json"}
        settings = settings_of(tmp_path, database, **{name: str(tmp_path / file) for name, file in files.items()})
        async with opened(tmp_path, settings, rounds, addresses) as desk:
            for one in rounds:
                if not await desk.play(one):
                    break
            for replica in desk.servers.replicas:
                replica.kill()
            async with open_later(settings) as runtime:
                unknown = [await desk.check(runtime, one) for one in desk.played].count("unknown")
                report = await verify_log(runtime.database, keys=log_keys(runtime.settings), key=runtime.tree.key)
                assert not report.violations, report.violations
        # Only where the server is killed between the operation of the call and its result, and there is no key.
        assert unknown <= (0 if keyed else len(desk.played) // 2)
        assert desk.servers.killed.total() >= min(len(rounds), 10)
