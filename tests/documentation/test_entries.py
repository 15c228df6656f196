"""Every setting, command, option, route, event and public name is on a page that people write; the reference only lists it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import get_args

import pytest
import typer

import graph_agent
from graph_agent import errors
from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.cli.main import app
from graph_agent.cli.running import PROGRAM
from graph_agent.models.record import CallDisposition, ShadowVerdict
from graph_agent.replays.flow import Fate
from graph_agent.settings import Settings
from graph_agent.turn.events import EventKind
from graph_agent.turn.hooks import ToolCallMode
from tests.documentation.reference import commands_of, describe
from tests.documentation.site import page_sources

TEXT = "\n".join(source.read_text(encoding="utf-8") for source in page_sources().values())
WORDS = set(re.findall(r"\w+", TEXT))
UNSENT = sorted(set(CallDisposition) - {CallDisposition.EXECUTED})
PLACES = re.compile(r"\{\w+\}|(?<=/)ID\b")
"""What stands for an id in a path of the pages, and in one of the OpenAPI document."""


def test_every_setting_is_on_a_page() -> None:
    assert [field.alias for field in Settings.model_fields.values() if field.alias not in WORDS] == []


def test_every_command_is_on_a_page() -> None:
    commands = [full.removeprefix(f"{PROGRAM} ") for full, _ in commands_of(typer.main.get_command(app), PROGRAM)]
    shown = rf"(?:`(?:{PROGRAM} )?|^(?:\$ )?{PROGRAM} )"
    assert [one for one in commands if not re.search(rf"{shown}{one}\b", TEXT, re.MULTILINE)] == []


def test_every_option_is_on_a_page() -> None:
    options = {
        (full, *one.opts)
        for full, command in commands_of(typer.main.get_command(app), PROGRAM)
        for one in command.params
        if one.param_type_name == "option" and one.name != "help" and not getattr(one, "hidden", False)
    }
    assert sorted(one for one in options if not re.search(rf"(?:{'|'.join(one[1:])})(?![\w-])", TEXT)) == []


async def test_every_route_is_on_a_page() -> None:
    async with open_runtime(temporary_settings(Settings()), model="embedded") as runtime:
        paths = create_app(runtime).openapi()["paths"]
    text = PLACES.sub("ID", TEXT)
    assert [path for path in paths if not re.search(rf"{re.escape(PLACES.sub('ID', path))}(?![\w/])", text)] == []


def test_every_event_is_on_a_page() -> None:
    assert [kind.value for kind in EventKind if f"`{kind.value}`" not in TEXT] == []


def test_every_public_name_is_on_a_page_or_a_part_of_one_that_is() -> None:
    values = {
        name: getattr(import_module(f"graph_agent.{module}"), name)
        for module, names in graph_agent._NAMES.items()  # type: ignore[attr-defined]  # noqa: SLF001 (it is not in the stub, which is made of it)
        for name in names
    }
    # The reference draws the tree of exceptions: each has its place there.
    found = values.keys() & (WORDS | set(re.findall(r"\w+", errors.__doc__ or "")))
    new = found
    while new:
        parts = set(re.findall(r"\w+", " ".join(text for name in new for text in describe(name, values[name]))))
        new = (parts & values.keys()) - found
        found = found | new
    assert sorted(values.keys() - found) == []


@pytest.mark.parametrize(
    ("page", "before", "values"),
    [
        ("api.md", "`before` and `after`", [fate.value for fate in Fate]),
        ("api.md", "with the guard's `verdict`", ["permitted", *UNSENT]),
        ("api.md", "and its `mode`", get_args(ToolCallMode)),
        ("export.md", "| `disposition` | string", [disposition.value for disposition in CallDisposition]),
        ("monitoring.md", "`graph_agent_stopped_calls_total`", UNSENT),
        ("monitoring.md", "`graph_agent_shadow_verdicts_total`", get_args(ShadowVerdict.model_fields["decision"].annotation)),
    ],
)
def test_a_page_that_lists_values_lists_all(page: str, before: str, values: Sequence[str]) -> None:
    _, found, after = page_sources()[page].read_text(encoding="utf-8").partition(before)
    assert found
    listed = re.findall(r"\w+(?: \w+)?", re.split(r"\n\n|\n- |\n\|", after)[0])
    words = {word for one in listed for word in (one, *one.split())}
    assert sorted(set(values) - words) == []
