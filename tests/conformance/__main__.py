"""`make conformance`: the MCP conformance suite, the MCP Inspector and the client of MCP's TypeScript SDK against our servers.

The last line printed is the count. The suite has no option for headers, so the servers run without authentication.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPECTED = HERE / "expected-failures.yaml"
MAX_EXPECTED_FAILURES = 14
"""May only be lowered."""

NPX = ("npx", "--yes", "--package", "node@22")
CONFORMANCE = (*NPX, "--package", "@modelcontextprotocol/conformance@0.1.16", "conformance")
INSPECTOR = (*NPX, "--package", "@modelcontextprotocol/inspector@2.12.0", "mcp-inspector", "--cli")
CONNECT = ("--connect-timeout", "120000")
"""A busy machine needs longer to start a server than the Inspector waits."""

SDK = "@modelcontextprotocol/sdk@1.32.2"

ON_THE_GATEWAY = ("server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection")
"""The scenarios that need no fixtures, for a server that declares tools."""
OF_THE_CLIENT = ("initialize", "tools_call", "sse-retry")
"""Our client declares neither elicitation nor sampling."""
ON_THE_TASK_SERVER = (*ON_THE_GATEWAY, "resources-list")
SECONDS = 300
GRAPH_AGENT = Path(sys.executable).with_name("graph-agent")


@contextmanager
def running(command: Sequence[str | Path], home: Path) -> Iterator[str]:
    """Run a server until it has printed its URL; yield the URL."""
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(home)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        try:
            yield next(found[0] for line in server.stdout if (found := re.search(r"http://\S+/mcp", line)))
        finally:
            server.terminate()


def run(command: Sequence[str | Path], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(home)}
    return subprocess.run(command, cwd=home, env=environment, text=True, capture_output=True, timeout=SECONDS, check=False)


def conformance(url: str, home: Path) -> tuple[int, int]:
    """Run the whole suite; return the number of scenarios that pass, and of all. Exits if the baseline does not fit."""
    ended = run([*CONFORMANCE, "server", "--suite", "all", "--url", url, "--expected-failures", EXPECTED], home)
    verdicts = re.findall(r"^([✓✗]) ([\w-]+): ", ended.stdout, re.MULTILINE)
    print(*(f"{mark} {name}" for mark, name in verdicts), sep="\n")
    if ended.returncode != 0 or not verdicts:
        print(ended.stdout[-2000:], ended.stderr[-2000:], sep="\n")
        sys.exit("the conformance suite found something that expected-failures.yaml does not list")
    # A scenario with warnings only has a tick in the summary, but it is a failure in the baseline.
    failed = set(re.findall(r"^  ~ ([\w-]+)$", ended.stdout, re.MULTILINE))
    return sum(name not in failed for _, name in verdicts), len(verdicts)


def scenarios(name: str, wanted: Sequence[str], url: str, home: Path) -> int:
    """Run the scenarios; return their number. Exits if one fails."""
    for scenario in wanted:
        ended = run([*CONFORMANCE, "server", "--scenario", scenario, "--url", url], home)
        if ended.returncode != 0 or not re.search(r"Passed: ([1-9]\d*)/\1,", ended.stdout):
            sys.exit(f"{ended.stdout[-2000:]}{ended.stderr[-2000:]}\nthe {name} fails {scenario}")
        print(f"✓ {scenario} ({name})")
    return len(wanted)


def scenarios_of_the_client(home: Path) -> int:
    """Run the scenarios for clients; return their number. Exits if one fails."""
    program = f"env PYTHONPATH={ROOT} {sys.executable} -m tests.conformance.client"
    for scenario in OF_THE_CLIENT:
        ended = run([*CONFORMANCE, "client", "--command", program, "--scenario", scenario, "--timeout", "120000"], home)
        if ended.returncode != 0 or "OVERALL: PASSED" not in ended.stdout + ended.stderr:
            sys.exit(f"{ended.stdout[-2000:]}{ended.stderr[-2000:]}\nour client fails {scenario}")
        print(f"✓ {scenario} (client)")
    return len(OF_THE_CLIENT)


def inspect(target: Sequence[str | Path], home: Path, *arguments: str) -> dict[str, Any]:
    """Return what the Inspector prints for one request."""
    ended = run([*INSPECTOR, *target, *CONNECT, *arguments], home)
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        sys.exit(f"{ended.stdout}{ended.stderr}\nthe Inspector failed: {' '.join(arguments)}")
    return answer


def inspection(target: Sequence[str | Path], transport: str, home: Path) -> int:
    """List and call the task tools with the Inspector; return the number of requests. Exits if an answer is wrong."""
    listed = inspect(target, home, "--method", "tools/list")
    assert [tool["name"] for tool in listed["tools"]][:2] == ["add_task", "list_tasks"], listed
    add = ("--method", "tools/call", "--tool-name", "add_task", "--tool-arg", f"description=call mom over {transport}")
    added = inspect(target, home, *add)
    assert added["structuredContent"]["data"]["preview"] == f"call mom over {transport}", added
    resources = inspect(target, home, "--method", "resources/list")
    assert resources["resources"][0]["title"] == f"call mom over {transport}", resources
    for method in ("tools/list", "tools/call", "resources/list"):
        print(f"✓ inspector {method} over {transport}")
    return 3


def inspection_of_the_gateway(target: Sequence[str | Path], transport: str, home: Path) -> int:
    """List and call the tools of the gateway with the Inspector; return the number of requests. Exits if an answer is wrong."""
    listed = inspect(target, home, "--method", "tools/list")
    assert {tool["name"] for tool in listed["tools"]} >= {"add_task", "delete_task"}, listed
    call = ("--method", "tools/call", "--tool-name")
    added = inspect(target, home, *call, "add_task", "--tool-arg", f"description=buy milk over {transport}")
    assert added["structuredContent"]["data"]["preview"] == f"buy milk over {transport}", added
    task = added["structuredContent"]["data"]["task"]["id"]
    waiting = inspect(target, home, *call, "delete_task", "--tool-arg", f"task_id={task}")
    assert waiting["structuredContent"]["state"] == "waiting_for_the_user", waiting
    refused = inspect(target, home, *call, "list_tasks", "--tool-arg", "user_id=bob")
    assert refused["structuredContent"]["error_code"] == "ACCESS_DENIED", refused
    for method in ("tools/list", "a change", "a question", "a refusal"):
        print(f"✓ inspector {method} over {transport} (gateway)")
    return 4


def steps_of_the_sdk(home: Path) -> int:
    """Drive the gateway with the client of MCP's TypeScript SDK; return the number of its steps. Exits if one fails."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home / "npm", SDK], check=True)
    shutil.copy(HERE / "client.mjs", home / "npm")
    ended = run(["node", home / "npm" / "client.mjs", GRAPH_AGENT], home)
    print(ended.stdout, end="")
    if ended.returncode != 0:
        sys.exit(f"{ended.stderr}\nthe client of the SDK failed")
    return ended.stdout.count("✓")


def checked_log(home: Path) -> None:
    """Exit unless the log of the gateway verifies and replays."""
    for command in (("log", "verify"), ("replay", "--all")):
        ended = run([GRAPH_AGENT, *command], home)
        if ended.returncode != 0:
            sys.exit(f"{ended.stdout}{ended.stderr}\n{' '.join(command)} failed after the gateway")
        print(f"✓ {' '.join(command)} (gateway)")


def main() -> None:
    if shutil.which("npx") is None:
        print("conformance: skipped, because there is no npm")
        return
    listed = re.findall(r"^  - ", EXPECTED.read_text(encoding="utf-8"), re.MULTILINE)
    if len(listed) > MAX_EXPECTED_FAILURES:
        sys.exit(f"{EXPECTED.name} has {len(listed)} entries; it may only shrink")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with running([sys.executable, "-m", "tests.conformance.fixture_server"], home) as url:
            passed, total = conformance(url, home)
        with running([GRAPH_AGENT, "tools", "serve", "--http", "127.0.0.1:0", "--no-token"], home) as url:
            clients = scenarios_of_the_client(home)
            own = scenarios("task server", ON_THE_TASK_SERVER, url, home)
            inspected = inspection([url, "--transport", "http"], "http", home)
        inspected += inspection([GRAPH_AGENT, "tools", "serve"], "stdio", home)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with running([GRAPH_AGENT, "gateway", "--http", "127.0.0.1:0", "--no-token"], home) as url:
            gateway = scenarios("gateway", ON_THE_GATEWAY, url, home)
            inspected += inspection_of_the_gateway([url, "--transport", "http"], "http", home)
        inspected += inspection_of_the_gateway([GRAPH_AGENT, "gateway"], "stdio", home)
        steps = steps_of_the_sdk(home)
        checked_log(home)
    print(
        f"conformance: {passed} of {total} scenarios pass with the fixtures, {own} of {own} with the task server, "
        f"{gateway} of {gateway} with the gateway, {clients} of {clients} with our client; "
        f"the Inspector made {inspected} requests, and the client of the SDK {steps}"
    )


if __name__ == "__main__":
    main()
