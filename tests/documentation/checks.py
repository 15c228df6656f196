"""The runs and checks of code blocks, by language."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from graph_agent import Constitution, ScriptedAdapter, errors
from graph_agent.api.bodies import AnswerRequest
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.graph import diagram
from graph_agent.graph.transcript import result_json
from graph_agent.llm.embedded.fixed_requests import FixedRequestsFile
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult, ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import SECTION
from graph_agent.reply.authored import plain
from graph_agent.settings import read_settings
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.tools.server_file import read_server_file
from graph_agent.validation.fixtures import load_fixtures
from graph_agent.words.receipts import confirmed_reply
from graph_agent.words.said import say
from tests.documentation.blocks import Block
from tests.documentation.page import FILES, IN_BACKGROUND, PAGES, PREPARED, THEN, Page
from tests.documentation.site import ROOT
from tests.policy.cedar_shop import GIVE_BACK, PERMIT, SHOP, ShopTool, policy_of
from tests.serving import free_ports


def problems_of(page: Page) -> Iterator[str]:
    """Run or check every block of a page; yield what went wrong."""
    before = PREPARED.get(page.name, "true")
    # The test case of a page is in a block below the command that reads it.
    for block in PAGES[page.name]:
        if file := block.file or FILES.get(block.key):
            (page.folder / file).write_text(block.text, encoding="utf-8")
    steps = {
        "SERVE": page.serve("graph-agent serve --port 8000", "localhost:8000/healthz"),
    }
    for step in before.split(" && "):
        code, printed = page.shell.run(steps.get(step, step))
        if code != 0:
            yield f"{page.name}: {step}: {printed}"
    for block in PAGES[page.name]:
        problems = HOW.get(block.language, unknown_language)(page, block)
        yield from (f"{block}: {problem}" for problem in problems)


def unknown_language(_page: Page, block: Block) -> Iterator[str]:
    yield f"nothing checks the language {block.language!r}: fence it with one of {', '.join(HOW)}"


def run_session(page: Page, block: Block) -> Iterator[str]:
    return page.shell.session(page.local(block.text))


def run_script(page: Page, block: Block) -> Iterator[str]:
    address = IN_BACKGROUND.get(block.key)
    if then := THEN.get(block.key):
        command = f"(set -e\n{page.local(block.text)}\n{then})"
    else:
        command = f"failed=0; trap 'failed=$?' ERR\n{page.local(block.text)}\ntrap - ERR; (exit $failed)"
    code, printed = page.shell.run(page.serve(block.text, address) if address else command)
    # An extra that does not exist is only a warning of pip.
    if code != 0 or "does not provide the extra" in printed:
        yield f"exit code {code}: {printed}"


def run_python(page: Page, block: Block) -> Iterator[str]:
    """Run a program in this process. A fragment of an example in the repository is compared with it."""
    if block.file is not None:
        compile(block.text, block.file, "exec")
        return
    example = ROOT / "examples" / "functions.py"
    if block.page == "docs/your_own_tools.md" and block.text in example.read_text(encoding="utf-8"):
        return
    names: dict[str, Any] = dict(PYTHON_NAMES.get(block.page, dict)())
    code = compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.chdir(page.folder)
        patch.setenv("GRAPH_AGENT_HOME", str(page.folder / "library"))
        patch.delenv("DATABASE_URL", raising=False)
        # The model server of a page is one that refuses connections: the program reports the failure.
        [port] = free_ports(1)
        patch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        patch.setenv("OPENAI_MODEL", "a-model")
        patch.setenv("OPENAI_API_KEY", "a-key")
        result: Any = eval(code, names)
        if inspect.isawaitable(result):
            asyncio.run(cast(Any, result))
    _, comment, expected = block.text.rpartition("  # ")
    if "print(" in block.text.rpartition("\n")[0].rpartition("\n")[2] and comment and printed.getvalue() != expected:
        yield f"printed {printed.getvalue()}"
    if headers := names.get("user_headers"):
        assert asyncio.run(headers("ann", "wiki")) == {"Authorization": "Bearer ann at wiki"}
    if "await run_agent(" in block.text and not printed.getvalue().startswith("Error: "):
        yield f"printed {printed.getvalue()}"


def names_of_telemetry() -> dict[str, object]:
    from opentelemetry import trace  # the extra `otel`

    from graph_agent import EngineOptions, FunctionTools, LLMAgentEngine
    from graph_agent.integrations.opentelemetry.spans import turn_spans

    def read_time() -> str:
        """Return the time."""
        return "noon"

    return {
        "EngineOptions": EngineOptions,
        "LLMAgentEngine": LLMAgentEngine,
        "turn_spans": turn_spans,
        "tracer": trace.get_tracer("test"),
        "adapter": ScriptedAdapter([]),
        "tools": FunctionTools(read_time),
        "constitution": "You tell the time.\n\n## Available Tools\n- read_time: Read the time (reads)\n",
    }


def names_of_langchain() -> dict[str, object]:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    from graph_agent import LLMAgentEngine
    from graph_agent.integrations.langchain import ChatModelAdapter, LangChainTools
    from tests.integrations.langchain.chat_model import ScriptedChatModel, requests

    @tool
    def delete_file(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    model = ScriptedChatModel(script=[requests(("delete_file", {"path": "a.txt"})), AIMessage("a.txt is gone.")])
    constitution = "You keep files.\n\n## Available Tools\n- delete_file: Delete file (requires confirmation)\n"
    engine = LLMAgentEngine(ChatModelAdapter(model), LangChainTools(delete_file), constitution)
    return {"model": model, "delete_file": delete_file, "constitution": constitution, "engine": engine}


def names_of_mcp() -> dict[str, object]:
    async def token_of(user_id: str, server: str) -> str:
        return f"{user_id} at {server}"

    return {"open_runtime": open_runtime, "read_settings": read_settings, "token_of": token_of}


PYTHON_NAMES: dict[str, Callable[[], dict[str, object]]] = {
    "docs/langchain.md": names_of_langchain,
    "docs/mcp.md": names_of_mcp,
    "docs/monitoring.md": names_of_telemetry,
}
"""The names that a fragment uses and that the text around it explains."""


def read_json(page: Page, block: Block) -> Iterator[str]:
    lines = block.text.splitlines() if (block.file or "").endswith(".jsonl") else [block.text]
    for value in map(json.loads, lines):
        if "mcpServers" in value:
            file = page.folder / "checked.json"
            file.write_text(block.text, encoding="utf-8")
            if not read_server_file(file, {"WIKI_TOKEN": "a", "TASKS_TOKEN": "b", "TEAM_SECRET": "c", **page.environment}):
                yield "it lists no server"
        elif "answers" in value:
            AnswerRequest.model_validate(value)
        elif block.file is None:
            yield "nothing checks this JSON"


def read_yaml(page: Page, block: Block) -> Iterator[str]:
    value = yaml.safe_load(block.text)
    if isinstance(value, list):
        file = page.folder / "checked.yaml"
        file.write_text(block.text, encoding="utf-8")
        load_fixtures(file)
    elif "requests" in value:
        FixedRequestsFile.model_validate(value)
    else:
        # With shellcheck and pyflakes the result would depend on what is installed here.
        lint = [str(Path(sys.executable).parent / "actionlint"), "-shellcheck=", "-pyflakes=", "-"]
        linted = subprocess.run(lint, input=block.text, capture_output=True, text=True, check=False)
        if linted.returncode:
            yield linted.stdout + linted.stderr
        for step in (step for job in value["jobs"].values() for step in job.get("steps", ()) if "run" in step):
            # The parser refuses a wrong option before it obeys --help.
            command = re.sub(r"( > .*)?$", " --help", step["run"])
            if wheel := re.search(r"\./(\S+\.whl)", command):
                command = f"[ -f $PIP_FIND_LINKS/{wheel[1]} ] && {command}"
            code, printed = page.shell.run(command)
            if code != 0:
                yield f"{step['run']}: {printed}"


def run_sql(page: Page, block: Block) -> Iterator[str]:
    """Run statements in DuckDB, over the files of the page."""
    import duckdb  # it would start its threads in the process from which the test processes are forked

    with duckdb.connect(str(page.folder / "views.duckdb")) as connection:
        connection.execute(f"SET file_search_path = '{page.folder}'")
        try:
            # Into a table, because Python's reader of times needs a library that DuckDB itself does not.
            into = "" if block.text.startswith("CREATE") else "CREATE TEMP TABLE result AS "
            connection.execute(into + block.text)
        except duckdb.Error as exc:
            yield str(exc)


def compare_picture(_page: Page, block: Block) -> Iterator[str]:
    if block.text != diagram.state_machine():
        yield "it is not what `graph-agent diagram` prints"


def read_constitution(page: Page, block: Block) -> Iterator[str]:
    """Parse a constitution, or its section of facts, which the rules after it may name."""
    tools = "" if SECTION in block.text else f"{SECTION}\n- find_order: Find an order (reads)\n"
    page.facts = Constitution.parse(f"You help.\n\n{tools}{block.text}").facts
    yield from ()


def results_of_mcp() -> list[str]:
    """Return the reply after a confirmed read, and what the model reads of a result that is no text."""
    declaration = ToolDeclaration(name="list_loans", description="", parameters={"type": "object"})
    constitution = Constitution.parse("## Available Tools\n- list_loans: List loans (reads) (requires confirmation)\n")
    rule = compile_policy(constitution, [declaration], {"list_loans": ToolTraits()}).rules["list_loans"]
    given = {"customer": "ann"}
    loans = [{"loan": 1, "item": "camera", "due": "2026-12-10"}, {"loan": 3, "item": 'laptop 14"'}]
    result = ToolResult(success=True, data={"loans": loans, "total": 2, "customer": "ann"})
    link = ContentItem(kind=ContentKind.LINK, uri="https://wiki.example/page", name="The page", size=1204)
    image = ContentItem(kind=ContentKind.IMAGE, type="image/png", size=48_113)
    return [
        plain(confirmed_reply(rule, given, say(rule, given), result)),
        "\n".join(result_json(ToolResult(success=True, content=[link, image]))["content"]),
    ]


def layers() -> list[str]:
    """Return the layers that import-linter checks, as the page breaks the line."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = re.escape(" > ".join(contract["layers"])).replace(r"\ ", r"\s+")
    return re.findall(words, page)


def tree_of_exceptions() -> str:
    """Return the tree of exceptions if every class of the package has its place in it."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    drawn, above = {}, {0: ""}
    for line in textwrap.dedent(tree).splitlines():
        name = re.search(r"\w+", line)
        assert name is not None
        depth = name.start() // 4
        drawn[name[0]] = above[depth]
        above[depth + 1] = name[0]
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    own = {kind.__name__: kind for kind in classes.values() if kind.__module__ == errors.__name__}
    assert drawn == {name: "" if name == "GraphAgentError" else kind.__bases__[0].__name__ for name, kind in own.items()}
    return textwrap.dedent(tree)


SAME_TEXT: dict[str, Callable[[], list[str]]] = {
    "docs/architecture.md": layers,
    "docs/mcp_servers.md": results_of_mcp,
}
"""The texts that the blocks of a page are."""


def compare_text(page: Page, block: Block) -> Iterator[str]:
    """Compare what is shown as the result of a block before it."""
    if block.page in SAME_TEXT:
        if block.text.strip() not in (expected := SAME_TEXT[block.page]()):
            yield f"it is not in {expected}"
    elif block.page == "docs/authentication.md":
        log = (page.folder / "serve.log").read_text(encoding="utf-8").replace(str(page.folder), "/home/ann")
        shown = re.sub(r"token=.*", "token=…", log)
        if block.text.replace("8000", str(page.port)) not in shown:
            yield f"printed {shown}"
    else:
        yield "nothing compares this text"


def check_conditions(page: Page, block: Block) -> Iterator[str]:
    """Check rules against the tools of the shop that the pages speak of, and the shipped ones."""
    shipped = [ShopTool(tool.name, tool.parameters, "tasks") for tool in TASK_TOOLS]
    # A file of promises has no permit.
    rules = block.text if "permit (" in block.text else PERMIT + block.text
    facts = "".join(f"- {fact.name}: {fact.text}\n" for fact in page.facts.values())
    try:
        policy_of([*SHOP, GIVE_BACK, *shipped], facts + rules)
    except errors.ConfigurationError as exc:
        yield str(exc)


HOW: dict[str, Callable[[Page, Block], Iterator[str]]] = {
    "cedar": check_conditions,
    "console": run_session,
    "json": read_json,
    "markdown": read_constitution,
    "mermaid": compare_picture,
    "python": run_python,
    "sh": run_script,
    "sql": run_sql,
    "text": compare_text,
    "yaml": read_yaml,
}
"""The function that runs or checks a block, by its language."""
