"""The code blocks and signatures of the documents that the project is built from, run as they are written.

The documents are not part of the repository. `GRAPH_AGENT_DOCUMENTS` names their folder; without it these tests are skipped.
`tests/turn/test_contract_calls.py` and `tests/models/test_documented_entities.py` cover the same signatures without them.
Every difference that is allowed here is explained in `docs/library.md`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import re
import sys
import typing
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
import pytest
from pydantic import PydanticDeprecatedSince20
from pydantic_core import PydanticUndefined

import graph_agent
from graph_agent import agent_service
from graph_agent.models.base import Frozen
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.testing import says
from tests.agent_service.environment import answers, wants
from tests.llm.wire_server import serving
from tests.scripted_turns import asks, calls
from tests.turn.test_contract_calls import PlainAdapter, PlainExecutor

FOLDER = os.environ.get("GRAPH_AGENT_DOCUMENTS")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="GRAPH_AGENT_DOCUMENTS is not set")

EXPLAINED = (Path(__file__).parents[2] / "docs/library.md").read_text(encoding="utf-8")

DIFFERENT = {
    "GeminiAdapter.model",
    "LLMConfig.model",
    "AgentConfiguration.model_name",
    "SystemPrompt.operational_rules",
    "SystemPrompt.tool_usage_instructions",
}
"""Parameters and fields whose default differs from the document's."""


def page(name: str) -> str:
    assert FOLDER is not None
    return (Path(FOLDER) / f"{name}.md").read_text(encoding="utf-8")


def blocks(language: str, name: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


def _pages() -> list[Path]:
    return sorted(Path(FOLDER).glob("*.md")) if FOLDER else []


def _code() -> list[Any]:
    return [
        pytest.param(code, id=f"{path.stem}-{number}")
        for path in _pages()
        for number, code in enumerate(blocks("python", path.stem))
        if "await" not in code
    ]


def namespace() -> dict[str, Any]:
    """Return what the blocks use without importing it: our public names, typing and dataclasses."""
    public = {name: getattr(graph_agent, name) for name in graph_agent.__all__}  # type: ignore[attr-defined]  # not in the stub
    return {**public, **vars(typing), "dataclass": dataclasses.dataclass, "BaseModel": pydantic.BaseModel}


def run(code: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Execute a block and return the names that it defines."""
    defined: dict[str, Any] = namespace() | (names or {})
    # A module of its own, in which the annotations of its models are resolved.
    module = ModuleType("document")
    sys.modules["document"] = module
    vars(module).update(defined, __name__="document")
    before = dict(vars(module))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticDeprecatedSince20)  # a block configures its model by a class
        exec(compile("from __future__ import annotations\n" + code, "document", "exec"), vars(module))
    return {name: value for name, value in vars(module).items() if before.get(name) is not value and name != "__builtins__"}


async def run_awaiting(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Execute a block that awaits at its top level."""
    compiled = compile(code, "document", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    defined = namespace() | names
    await eval(compiled, defined)
    return defined


@cache
def documented_classes() -> list[tuple[type[Any], type[Any]]]:
    """Return each class of the documents with the public class of the same name."""
    defined = [
        value
        for path in _pages()
        for code in blocks("python", path.stem)
        if "await" not in code
        for value in run(code).values()
        if inspect.isclass(value) and value.__module__ == "document"
    ]
    return [(theirs, getattr(graph_agent, theirs.__name__)) for theirs in defined]


def _pairs() -> list[Any]:
    return [pytest.param(theirs, ours, id=ours.__name__) for theirs, ours in documented_classes()] if FOLDER else []


@pytest.mark.parametrize("code", _code())
def test_a_block_of_code_runs(code: str) -> None:
    for name, value in run(code).items():
        if name.isupper():
            assert getattr(graph_agent, name) == value


def test_every_class_has_a_public_one_of_its_name() -> None:
    for path in _pages():
        for name in re.findall(r"^class (\w+)", "\n".join(blocks("python", path.stem)), re.MULTILINE):
            assert name in graph_agent.__all__  # type: ignore[attr-defined]  # not in the stub


def _fields(model: type[Any]) -> dict[str, Any]:
    """Return the fields of a dataclass, a model or an annotated class with their defaults."""
    if issubclass(model, pydantic.BaseModel):
        return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}
    return {name: getattr(model, name, PydanticUndefined) for name in getattr(model, "__annotations__", {})}


@pytest.mark.parametrize(("theirs", "ours"), _pairs())
def test_the_fields_come_first_in_the_same_order_with_the_same_defaults(theirs: type[Any], ours: type[Any]) -> None:
    documented = _fields(theirs)
    if not documented:
        return
    if issubclass(ours, Exception):
        actual = {name: parameter.default for name, parameter in inspect.signature(ours).parameters.items()}
    else:
        actual = _fields(ours)
    assert list(actual)[: len(documented)] == list(documented)
    for name, default in documented.items():
        if f"{ours.__name__}.{name}" in DIFFERENT:
            assert actual[name] != default
        elif default is not PydanticUndefined:
            assert actual[name] == default


@pytest.mark.parametrize(("theirs", "ours"), _pairs())
def test_the_methods_accept_the_documented_parameters(theirs: type[Any], ours: type[Any]) -> None:
    for name, method in vars(theirs).items():
        if not inspect.isfunction(method) or (name.startswith("_") and name != "__init__") or issubclass(ours, Frozen):
            continue
        expected, actual = (inspect.signature(each).parameters for each in (method, getattr(ours, name)))
        assert list(actual)[: len(expected)] == list(expected)
        assert inspect.iscoroutinefunction(getattr(ours, name)) == inspect.iscoroutinefunction(method)
        for parameter in expected.values():
            if parameter.default is not parameter.empty and f"{ours.__name__}.{parameter.name}" not in DIFFERENT:
                assert actual[parameter.name].default == parameter.default
        rest = list(actual.values())[len(expected) :]
        assert all(parameter.default is not parameter.empty for parameter in rest)


VALUES = {
    "name": "add_task",
    "arguments": {"description": "call mom"},
    "description": "Create a task.",
    "parameters": {"type": "object"},
    "content": "Hello.",
    "role": "user",
    "finish_reason": "error",
    "error": "the model's own words",
    "message": "it failed",
    "code": "E42",
    "retry_after": 3,
    "api_key": "key",
    "model": "gemini-3.8-flash",
}


@pytest.mark.parametrize(("theirs", "ours"), [pair for pair in _pairs() if dataclasses.is_dataclass(pair.values[0])])
def test_a_dataclass_is_constructed_by_position(theirs: type[Any], ours: type[Any]) -> None:
    names = [field.name for field in dataclasses.fields(theirs)]
    values = [VALUES.get(name, getattr(theirs, name, None)) for name in names]
    one, other = theirs(*values), ours(*values)
    assert [getattr(other, name) for name in names] == [getattr(one, name) for name in names]


def test_the_agent_services_models_behave_as_documented() -> None:
    documented = {theirs.__name__: theirs for theirs, _ in documented_classes()}
    rules, guidelines = ["serve only the user"], ["be concise"]
    given: dict[str, Any] = {
        "operational_rules": rules,
        "response_guidelines": guidelines,
        "tool_usage_instructions": "Use them.",
    }
    prompts = [model(**given).to_prompt_string("ann") for model in (documented["SystemPrompt"], graph_agent.SystemPrompt)]
    assert prompts[0] == prompts[1]
    for schema in ({}, {"type": "function"}, {"type": "tool", "function": {}}):
        binding: dict[str, Any] = {"tool_name": "add_task", "openai_function_schema": schema, "mcp_tool_reference": print}
        sentences = []
        for model in (documented["ToolBinding"], graph_agent.ToolBinding):
            with pytest.raises(pydantic.ValidationError) as refused:
                model(**binding)
            sentences.append([error["msg"] for error in refused.value.errors()])
        assert sentences[0] == sentences[1]


def _tables() -> list[Any]:
    """Return the entities of the data model that are described by a table, with its rows."""
    entity = re.compile(r"^### \d+\. (\w+)\n(.*?)(?=^---|^### |\Z)", re.MULTILINE | re.DOTALL)
    row = re.compile(r"^\| (\w+) \| (.+?) \| (Yes|No|Conditional) \|", re.MULTILINE)
    found = entity.findall(page("data-model")) if FOLDER else []
    return [pytest.param(getattr(graph_agent, name), row.findall(text), id=name) for name, text in found]


@pytest.mark.parametrize(("model", "rows"), _tables())
def test_the_tables_of_the_data_model_name_the_fields_and_those_that_are_required(
    model: type[Frozen], rows: list[tuple[str, str, str]]
) -> None:
    assert rows
    optional = {"FunctionCall.arguments"}  # {} if it is left out
    for name, _, required in rows:
        if f"{model.__name__}.{name}" not in optional:
            assert model.model_fields[name].is_required() == (required == "Yes"), name


def test_the_errors_are_llm_errors_under_their_documented_names() -> None:
    names = re.findall(r"^\| `(\w+Error)` \|", page("adapter-contract"), re.MULTILINE)
    assert len(names) == 5
    for name in names:
        assert issubclass(getattr(graph_agent, name), graph_agent.LLMError)


def test_the_json_of_a_tool_is_a_declaration() -> None:
    (declaration,) = blocks("json", "adapter-contract")
    assert graph_agent.ToolDeclaration.model_validate_json(declaration).to_json() == json.loads(declaration)


async def test_the_template_of_the_constitution_governs_a_turn_of_the_plainest_parts() -> None:
    (template,) = blocks("markdown", "engine-contract")
    adapter: Any
    executor: Any
    adapter, executor = PlainAdapter(calls(("add_task", {"description": "call mom"})), says("Added.")), PlainExecutor()
    engine = graph_agent.LLMAgentEngine(adapter, executor, template, 5)
    decision = await engine.process_message(asks())
    assert (decision.decision_type, decision.response_text) == (graph_agent.DecisionType.INVOKE_TOOL, "Added.")
    adapter = PlainAdapter(calls(("delete_task", {"task_id": "7"})))
    asked = await graph_agent.LLMAgentEngine(adapter, executor, template).process_message(asks("delete it"))
    assert asked.decision_type is graph_agent.DecisionType.REQUEST_CONFIRMATION


async def test_the_calls_of_the_observability_section_write_the_record() -> None:
    (code,) = [code for code in blocks("python", "engine-contract") if "logging_service" in code]
    writer, context = MemoryAuditWriter(), asks()
    names = {
        "logging_service": writer,
        "context": context,
        "decision_id": "d1",
        "tool_name": "add_task",
        "parameters": {},
        "tool_result": graph_agent.ToolResult(True, {"id": 7}),
        "duration": 12,
    }
    await run_awaiting(code, names)
    (invocation,) = writer.invocations.values()
    assert (invocation.tool_name, invocation.result, invocation.duration_ms) == ("add_task", {"id": 7}, 12)


async def test_the_usage_example_of_the_agent_service_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = [code for code in blocks("python", "agent-service-data-model") if "await run_agent" in code]
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path))
    for name in ("services", "services.agent_service", "config", "config.agent_config"):
        monkeypatch.setitem(sys.modules, name, agent_service)
    async with serving(wants(("list_tasks", {})), answers("You have no tasks.")) as server:
        monkeypatch.setenv("GEMINI_API_KEY", "key")
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        await run_awaiting(code, {})
    assert capsys.readouterr().out == "Agent: You have no tasks.\n"


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_a_difference_is_explained(name: str) -> None:
    assert f"`{name}`" in EXPLAINED
