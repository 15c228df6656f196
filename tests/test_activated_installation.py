"""Every front door decides under the activated rules, also in a process that was opened under others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.agent_services import open_agent_services
from graph_agent.bootstrap.candidate_rules import rules_of_files
from graph_agent.bootstrap.rules_source import InstalledRules
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.bootstrap.secret import record_keys
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.gateway.server import Gateway
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall
from graph_agent.models.rule_set import ActivationKind
from graph_agent.policy.constitution import Constitution
from graph_agent.record.rule_sets import activate_rules
from graph_agent.record.tree.leaves import Sealer
from graph_agent.settings import Settings
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EnginePorts
from tests.mcp.conftest import notes_server
from tests.scripted_turns import asks
from tests.variables import unset_variables

Make = Callable[..., Settings]
PERMIT = '@id("base") permit (principal, action, resource);\n'
MILK = '@id("no milk") forbid (principal, action == Action::"add_task", resource)\n'
MILK += 'when { context.arguments.description like "*milk*" };\n'
FEW = "# Rules\n\nYou list tasks.\n\n## Available Tools\n- list_tasks: List the tasks (reads)\n"
NOTES = "# Notes\n\nYou read notes.\n\n## Available Tools\n- read_note: Read a note (reads)\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """`settings(GRAPH_AGENT_ROLES="groups=support")` returns settings with these variables and a temporary home."""
    unset_variables(monkeypatch)

    def make(**variables: Any) -> Settings:
        return Settings.model_validate({"GRAPH_AGENT_HOME": tmp_path / "home", **variables})

    return make


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    file = tmp_path / "strict.cedar"
    file.write_text(PERMIT + MILK, encoding="utf-8")
    return file


class Operator:
    """Activates rules beside a running process, which reads the rules in force before each turn."""

    def __init__(self, runtime: Runtime) -> None:
        assert runtime.rules is not None
        self.runtime, self.number = runtime, 0
        self.rules: InstalledRules = runtime.rules
        self.rules.renew_seconds = 0.0

    async def activate(self, files: Settings, **more: Any) -> str:
        candidate = await rules_of_files(files, self.runtime.database, promises=None)
        sealer = Sealer(record_keys(files))
        activated = await activate_rules(self.runtime.database, candidate.rule_set, sealer, expected=self.number, **more)
        self.number = activated.number
        return activated.digest


async def added(runtime: Runtime, text: str) -> tuple[bool, str | None]:
    """Return whether a message adds a task, and the rules that the record of its decision names."""
    answer = await runtime.chat.send("ann", f"add a task to {text}")
    record = await runtime.audit.load(answer.decision_id)
    return answer.decision.reply.startswith("Added "), record.header.rules  # type: ignore[union-attr]  # it is stored


async def test_a_running_process_decides_its_next_turn_under_the_activated_rules(settings: Make, strict: Path) -> None:
    async with open_runtime(settings(), model="embedded") as runtime:
        operator = Operator(runtime)
        done, followed = await added(runtime, "milk the cow")
        assert done
        operator.number = 1
        digest = await operator.activate(settings(GRAPH_AGENT_CONDITIONS=strict))
        assert await added(runtime, "milk the goat") == (False, digest)

        released = await operator.activate(settings(), kind=ActivationKind.RELEASED)
        assert released == followed
        assert await added(runtime, "milk the goat") == (True, followed)


async def test_a_process_without_the_files_has_the_rules_in_force(settings: Make, strict: Path) -> None:
    async with open_runtime(settings(GRAPH_AGENT_CONDITIONS=strict, GRAPH_AGENT_MAX_ITERATIONS=3), model="embedded") as runtime:
        digest = await Operator(runtime).activate(runtime.settings)
    async with open_runtime(settings(), model="embedded") as runtime:
        assert await added(runtime, "milk the cow") == (False, digest)
        assert runtime.engine.config.max_iterations == 3
    async with open_agent_services(settings(GRAPH_AGENT_MAX_ITERATIONS=9)) as services:
        assert services.config.max_iterations == 3
        finished = await services.calling_engine().call("ann", [FunctionCall("add_task", {"description": "milk"})], typed=True)
        assert (finished.record.header.rules, finished.record.invocations[0].success) == (digest, False)


async def test_services_that_stay_open_are_renewed_for_each_caller_of_the_agent(settings: Make, strict: Path) -> None:
    async with open_runtime(settings(), model="embedded") as runtime, open_agent_services(settings()) as services:
        assert services.rules is not None
        services.rules.renew_seconds = 0.0
        digest = await Operator(runtime).activate(settings(GRAPH_AGENT_CONDITIONS=strict))
        renewed = await services.renewed()
        assert (renewed.rule_set is not None and renewed.rule_set.digest, renewed.conditions is not None) == (digest, True)


async def test_the_clients_of_the_gateway_are_told_about_other_tools(settings: Make, tmp_path: Path) -> None:
    few = tmp_path / "few.md"
    few.write_text(FEW, encoding="utf-8")
    async with open_runtime(settings(), model="embedded") as runtime:
        gateway = Gateway(runtime.engine, runtime.chat, user_id="ann", page="http://127.0.0.1:1")
        await gateway.refresh()
        assert gateway.reads("list_tasks")
        await Operator(runtime).activate(settings(GRAPH_AGENT_CONSTITUTION=few))
        await gateway.refresh()
        assert gateway.reads("list_tasks")
        assert list((await runtime.engine.prepare()).policy.rules) == ["list_tasks"]


async def test_a_process_that_cannot_use_the_rules_decides_nothing_and_is_not_ready(settings: Make) -> None:
    async with open_runtime(settings(), model="embedded") as runtime:
        operator = Operator(runtime)
        await operator.activate(settings(GRAPH_AGENT_ROLES="groups=support"))
        with pytest.raises(ServiceError, match="restart it") as refused:
            await added(runtime, "milk the cow")
        assert refused.value.code is ServiceErrorCode.RULES_UNAVAILABLE
        transport = httpx.ASGITransport(create_app(runtime))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "RULES_UNAVAILABLE")
    # After its restart it has the roles, too.
    async with open_runtime(settings(), model="embedded") as runtime:
        assert runtime.settings.role_names == ("support",)
        assert (await added(runtime, "milk the cow"))[0]


async def test_rules_with_a_part_that_this_version_does_not_know_are_not_used(settings: Make) -> None:
    async with open_runtime(settings(), model="embedded") as runtime:
        operator = Operator(runtime)
        candidate = await rules_of_files(settings(), runtime.database, promises=None)
        newer = type(candidate.rule_set)({**candidate.rule_set.parts, "quorum": "2"})
        await activate_rules(runtime.database, newer, Sealer(record_keys(settings())), expected=operator.number)
        with pytest.raises(ServiceError, match="parts that it does not know: quorum"):
            await added(runtime, "milk the cow")
    with pytest.raises(ServiceError, match="so it decides nothing"):
        async with open_runtime(settings(), model="embedded"):
            pass


async def test_a_process_with_another_entry_of_a_server_has_none_of_its_tools(settings: Make, tmp_path: Path) -> None:
    constitution, mcp, other = tmp_path / "c.md", tmp_path / "servers.json", tmp_path / "other.json"
    constitution.write_text(NOTES, encoding="utf-8")
    mcp.write_text(json.dumps({"mcpServers": {"notes": notes_server(tmp_path)}}), encoding="utf-8")
    other.write_text(json.dumps({"mcpServers": {"notes": notes_server(tmp_path / "elsewhere")}}), encoding="utf-8")
    ours = settings(GRAPH_AGENT_CONSTITUTION=constitution, GRAPH_AGENT_MCP=mcp)
    async with open_runtime(ours, model="embedded") as runtime:
        await Operator(runtime).activate(ours)
    for mine, served in ((mcp, True), (other, False), (None, False)):
        async with open_runtime(settings(**({} if mine is None else {"GRAPH_AGENT_MCP": mine})), model="embedded") as runtime:
            policy = (await runtime.engine.prepare()).policy
            assert ("read_note" in policy.rules, "read_note" in policy.unavailable) == (served, not served)
            assert runtime.tasks is None


async def test_an_engine_of_your_own_must_have_the_constitution_in_force(settings: Make, tmp_path: Path) -> None:
    few = tmp_path / "few.md"
    few.write_text(FEW, encoding="utf-8")
    async with open_runtime(settings(), model="embedded") as runtime:
        await Operator(runtime).activate(settings(GRAPH_AGENT_CONSTITUTION=few))
        own = LLMAgentEngine(ScriptedAdapter([]), runtime.tools, Constitution.load().text, ports=EnginePorts(runtime.audit))
        with pytest.raises(ConfigurationError, match="this engine has another constitution"):
            await own.run(asks())
