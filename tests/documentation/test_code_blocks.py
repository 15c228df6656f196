"""Every code block of README and docs is run, or compared with what the code says; one that nothing checks fails.

The blocks of a page run in order, in one shell with an empty home, as its reader would type them. `stand_ins.py` has the
programs that download, build for minutes, or need a service.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.api.oidc_server import oidc_issuer
from tests.dask_cluster import dask_cluster
from tests.documentation import stand_ins
from tests.documentation.blocks import Block
from tests.documentation.checks import HOW, SAME_TEXT, problems_of, unknown_language
from tests.documentation.page import (
    DATABASES,
    FILES,
    FIRST,
    IN_BACKGROUND,
    ISSUERS,
    MODELS,
    PAGES,
    PORTS,
    PREPARED,
    PROGRAMS,
    SCHEDULERS,
    SYSTEM_PATH,
    THEN,
    Page,
    unprivileged,
)
from tests.llm.wire_apis import OpenAIAPI
from tests.provider import providing_in_thread

OPENAI = OpenAIAPI()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the PATH with commands that start quickly; in it, a folder with the stand-ins and one with the wheel."""
    folder = tmp_path_factory.mktemp("bin")
    stand_ins.install(folder / "stand_ins")
    stand_ins.build_wheel(folder / "wheels")
    for command in fork_server.commands().iterdir():
        (folder / command.name).symlink_to(command)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with dask_cluster(1) as cluster:
        yield cluster


@pytest.mark.parametrize("name", [one if one in FIRST else pytest.param(one, marks=pytest.mark.slow) for one in PAGES])
@pytest.mark.timeout(3600)  # a page starts up to a dozen servers and commands, which all wait for a busy machine
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
        if name in SCHEDULERS:
            places[SCHEDULERS[name]] = request.getfixturevalue("cluster").scheduler_address
        if name in ISSUERS:
            issuer = stack.enter_context(oidc_issuer())
            places[ISSUERS[name]] = issuer.url
        page = Page(name, tmp_path, commands, places)
        stack.callback(page.shell.close)
        problems = list(problems_of(page))
        assert name not in MODELS or provider.bodies, "the model server got no request"
        assert name not in ISSUERS or issuer.asked, "the issuer got no request"
    assert not problems, "\n\n".join(problems)


def test_every_table_names_blocks_and_pages_that_exist() -> None:
    keys = {block.key for blocks in PAGES.values() for block in blocks}
    assert {*IN_BACKGROUND, *FILES, *THEN} <= keys
    assert {*SCHEDULERS, *ISSUERS, *SAME_TEXT} <= PAGES.keys()
    assert {*FIRST, *PREPARED, *PROGRAMS, *PORTS, *DATABASES, *MODELS} <= PAGES.keys()


def test_a_page_installs_the_programs_that_it_runs() -> None:
    for name, programs in PROGRAMS.items():
        lines = [line for block in PAGES[name] for line in block.text.splitlines()]
        (packages,) = (shlex.split(line)[3:] for line in lines if line.startswith("sudo apt-get install "))
        assert sorted(packages) == sorted([*programs, "curl", "postgresql"])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("", "a"),
        ("toml", "a = 1"),
        ("text", "a"),
        ("json", "{}"),
        ("sql", "SELECT nothing"),
        ("console", "$ echo a\nb\n"),
        ("sh", "false"),
        ("sh", "false\ntrue"),
        ("sh", "make no-such-target"),
        ("sh", "make soak MINUTE=5"),
        ("sh", "docker compose --file deploy/compose.yaml up --bild"),
        ("sh", "docker compose --file deploy/compose.yml up --build"),
        ("sh", "helm install agent deploy/helm/graph-agent"),
        ("sh", "helm install agent deploy/helm/graph-agent --set existingSecret=a --sett b=c"),
        ("sh", "helm install agent deploy/helm/graph-agent --set existingSecret=a,replica=3"),
        ("sh", "helm install agent deploy/helm/graph-agent --set existingSecret=a --set-file constitution=no.md"),
        ("sh", "graph-agent log metrics --sinse 24h"),
        ("sh", "langgraph dev --allow-block"),
        ("sh", "pytest -q -n0 tests/policy/test_no_guard.py"),
        ("sh", "sudo apt-get instal curl"),
        ("yaml", "on: [push]\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: graph-agent validate --junitt > a.xml}]}}"),
        ("yaml", "on: [push]\njobs: {a: {runs-on: ubuntu-latest, step: [{run: graph-agent --version}]}}"),
    ],
)
def test_a_wrong_block_is_a_problem(language: str, text: str, tmp_path: Path, commands: Path) -> None:
    page = Page("README.md", tmp_path, commands, {})
    try:
        prepared, _ = page.shell.run(
            "cp -r $ROOT/deploy $ROOT/examples/studio/* $ROOT/graph_agent . && sed s/=$/=a/ deploy/example.env > deploy/.env"
        )
        assert prepared == 0
        assert list(HOW.get(language, unknown_language)(page, Block("README.md", 1, language, text, None)))
    finally:
        page.shell.close()


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        (".venv/bin/ruff check . && .venv/bin/no-ruff format .", ["there is no no-ruff"]),
        (".venv/bin/python -m benchmarks.soak 5", []),
        (".venv/bin/python -m benchmarks.no_soak 5", ["there is no benchmarks.no_soak"]),
        (".venv/bin/python deploy/no_sbom.py sbom.cdx.json", ["there is no deploy/no_sbom.py"]),
    ],
)
def test_a_recipe_with_a_program_module_or_file_that_does_not_exist_is_found(line: str, missing: list[str]) -> None:
    assert stand_ins.missing_in(line) == missing
