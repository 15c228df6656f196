"""The objects that bootstrap constructs from settings, and settings that prevent the start."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from graph_agent.bootstrap.adapters import choose_adapter, choose_model
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.secret import read_secrets, secret_file, signing_keys
from graph_agent.bootstrap.stores import open_stores, temporary_settings
from graph_agent.bootstrap.validating import open_validation
from graph_agent.errors import ConfigurationError
from graph_agent.llm.openai_compatible import GEMINI_ENDPOINT, OpenAICompatibleAdapter
from graph_agent.settings import Settings
from graph_agent.tlog.note import KeyType, SigningKey
from tests.variables import unset_variables

Make = Callable[..., Settings]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """`settings(GEMINI_API_KEY="k")` returns settings with these variables and a temporary home."""
    unset_variables(monkeypatch)

    def make(**variables: Any) -> Settings:
        return Settings.model_validate({"GRAPH_AGENT_HOME": tmp_path / "home", **variables})

    return make


@pytest.mark.parametrize(
    ("variables", "explicit", "kind", "reason"),
    [
        ({}, None, "embedded", "no GEMINI_API_KEY is set"),
        ({"GEMINI_API_KEY": "k"}, None, "gemini", "GEMINI_API_KEY is set"),
        ({"GEMINI_API_KEY": "k", "GRAPH_AGENT_MODEL": "embedded"}, None, "embedded", "chosen by GRAPH_AGENT_MODEL"),
        ({"GEMINI_API_KEY": "k", "GRAPH_AGENT_MODEL": "openai"}, "embedded", "embedded", "chosen on the command line"),
        ({"OPENAI_API_KEY": "k"}, None, "embedded", "no GEMINI_API_KEY is set"),
        ({}, "scripted:some/file", "scripted", "chosen on the command line"),
    ],
)
def test_the_explicit_choice_overrides_the_settings_and_these_the_key(
    settings: Make, variables: dict[str, str], explicit: str | None, kind: str, reason: str
) -> None:
    choice = choose_model(settings(**variables), explicit)

    assert (choice.kind, choice.reason) == (kind, reason)


@pytest.mark.parametrize("text", ["gpt-5", "", "Rules", "embedded:", "scripted", "scripted:", "gemini:flash"])
def test_a_model_that_does_not_exist_is_refused_with_those_that_do(settings: Make, text: str) -> None:
    with pytest.raises(ConfigurationError, match="choose embedded, embedded:FILE, gemini, openai or scripted:FILE"):
        choose_model(settings(), text)


@pytest.mark.parametrize(
    ("variables", "explicit", "names"),
    [
        ({}, "gemini", "GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": "  "}, "gemini", "GEMINI_API_KEY"),
        ({}, "openai", "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "k"}, "openai", "OPENAI_MODEL"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai", "OPENAI_MODEL"),
        ({}, "scripted:no-such-file", "no-such-file"),
    ],
)
def test_a_choice_that_lacks_something_refuses_to_start(
    settings: Make, variables: dict[str, str], explicit: str, names: str
) -> None:
    with pytest.raises(ConfigurationError, match=names):
        choose_adapter(settings(**variables), explicit)


@pytest.mark.parametrize(
    ("variables", "url", "key"),
    [
        ({"GEMINI_API_KEY": "google"}, GEMINI_ENDPOINT.rstrip("/"), "google"),
        ({"GEMINI_API_KEY": "google", "OPENAI_API_KEY": "open", "OPENAI_MODEL": "m"}, "https://api.openai.com/v1", "open"),
        (
            {"GEMINI_API_KEY": "google", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_MODEL": "m"},
            "http://127.0.0.1:1/v1",
            "none",
        ),
    ],
)
def test_a_key_is_only_sent_to_the_host_it_was_made_for(settings: Make, variables: dict[str, str], url: str, key: str) -> None:
    adapter, _ = choose_adapter(settings(**variables), "openai")

    assert isinstance(adapter, OpenAICompatibleAdapter)
    assert (adapter._base_url, adapter._config.api_key) == (url, key)  # noqa: SLF001 (a request would go to the internet)


def test_the_reason_names_the_model_and_never_the_key(settings: Make) -> None:
    adapter, reason = choose_adapter(settings(GEMINI_API_KEY="AIzaVerySecret", GEMINI_MODEL="gemini-9"))

    assert adapter.model == "gemini-9"
    assert reason == "gemini (gemini-9): GEMINI_API_KEY is set"


def test_many_starts_at_once_agree_on_one_key_that_only_its_owner_can_read(settings: Make) -> None:
    made = settings()
    made.home.mkdir()
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: signing_keys(made), range(32)))

    assert len(keys) == 1
    assert stat.S_IMODE(secret_file(made).stat().st_mode) == 0o600
    assert [file.name for file in made.home.iterdir()] == ["secret"]


def test_the_secret_in_the_environment_overrides_the_file(settings: Make) -> None:
    assert signing_keys(settings(GRAPH_AGENT_SECRET="a secret of my own")) == (b"a secret of my own",)


def test_previous_secrets_follow_the_current_one(settings: Make) -> None:
    two = {
        "GRAPH_AGENT_SECRET": "a secret of my own",
        "GRAPH_AGENT_PREVIOUS_SECRETS": "the one before that, the oldest of them",
    }
    assert signing_keys(settings(**two)) == (b"a secret of my own", b"the one before that", b"the oldest of them")


def test_further_lines_of_the_key_file_are_previous_secrets(settings: Make) -> None:
    made = settings()
    made.home.mkdir()
    secret_file(made).touch(mode=0o600)
    secret_file(made).write_bytes(b"n" * 64 + b"\n" + b"o" * 64 + b"\n")

    assert signing_keys(made) == (b"n" * 64, b"o" * 64)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"k" * 64)
    file.chmod(mode)

    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_secrets(file)


def test_a_key_file_without_a_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)

    with pytest.raises(ConfigurationError, match="contains no key"):
        read_secrets(file)


async def test_the_home_is_for_its_owner_only(settings: Make) -> None:
    made = settings()
    async with open_stores(made):
        assert stat.S_IMODE(made.home.stat().st_mode) == 0o700


async def test_no_home_is_created_if_it_would_be_empty(settings: Make) -> None:
    made = settings(DATABASE_URL="sqlite://", GRAPH_AGENT_SECRET="a secret of my own")
    async with open_runtime(made) as runtime:
        assert (await runtime.chat.send("ann", "add a task to call mom")).decision.effects == ["Add task 'call mom'"]

    assert not made.home.exists()


async def test_a_home_that_cannot_be_made_refuses_to_start(settings: Make, tmp_path: Path) -> None:
    (tmp_path / "home").touch()

    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_HOME"):
        async with open_stores(settings()):
            pass


async def test_a_database_that_is_not_there_refuses_to_start_and_is_named(settings: Make) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/tasks"
    with pytest.raises(ConfigurationError, match="DATABASE_URL") as refused:
        async with open_stores(settings(DATABASE_URL=url)):
            pass

    assert "hunter2" not in str(refused.value)


async def test_a_listed_tool_that_no_server_has_prevents_the_start(settings: Make, tmp_path: Path) -> None:
    constitution = tmp_path / "rules.md"
    constitution.write_text("## Available Tools\n- add_task: Create tasks\n- launch: Start rockets\n", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="launch"):
        async with open_runtime(settings(GRAPH_AGENT_CONSTITUTION=constitution)):
            pass


async def test_a_runtime_leaves_no_thread_behind_and_its_data_in_place(settings: Make) -> None:
    made = settings()
    async with open_runtime(made) as runtime:
        await runtime.chat.send("ann", "add a task to call mom")
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sqlite")]
    async with open_runtime(made) as runtime:
        assert "call mom" in (await runtime.chat.send("ann", "show my tasks")).reply


async def test_a_temporary_settings_starts_empty_and_touches_nothing_of_the_users(settings: Make) -> None:
    made = settings(GRAPH_AGENT_SECRET="a secret of my own")
    for _ in range(2):
        async with open_runtime(temporary_settings(made)) as runtime:
            assert "no tasks" in (await runtime.chat.send("ann", "show my tasks")).reply
            await runtime.chat.send("ann", "add a task to call mom")
            assert runtime.settings.secret != SecretStr("a secret of my own")

    assert not made.home.exists()


async def test_a_temporary_runtime_and_a_validation_leave_the_witnesses_and_the_keys_of_the_log_alone(settings: Make) -> None:
    witness = f"https://127.0.0.1:9 {SigningKey.generate('witness.test', KeyType.COSIGNATURE).verifier}"
    made = settings(
        LOG_SIGNING_KEY="a random text of at least thirty-two characters",
        LOG_ORIGIN="log.test",
        LOG_WITNESSES=witness,
        GRAPH_AGENT_MODEL="embedded",
    )
    async with open_runtime(temporary_settings(made)) as runtime:
        assert runtime.tree.witnesses == []
        assert runtime.tree.keys.origin != "log.test"
    # A validation does not seal the log, so it does not read the file of its witnesses either.
    made.home.mkdir()
    (made.home / "log.witnesses").write_text("nonsense\n", encoding="utf-8")
    async with open_validation(made):
        pass
