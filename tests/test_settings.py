"""The environment variables that are read, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings, read_settings, set_variables, unknown_variables


def test_without_variables_everything_is_in_the_home_folder() -> None:
    settings = read_settings({})
    assert settings.home == Path("~/.graph_agent").expanduser()
    assert settings.database == f"sqlite:///{settings.home / 'graph_agent.db'}"
    assert settings.log_reads == settings.database


def test_a_variable_with_a_fields_own_name_is_not_read() -> None:
    others = {"HOME": "/root", "MODEL": "gpt", "SECRET": "short", "OTEL": "maybe", "CONSTITUTION": "x"}
    assert read_settings(others) == read_settings({})


def test_names_ignore_case_and_empty_values_count_as_unset() -> None:
    settings = read_settings({"gemini_api_key": "k", "GRAPH_AGENT_TIMEOUT_SECONDS": "", "graph_agent_otel": "true"})
    assert settings.gemini_api_key is not None
    assert (settings.gemini_api_key.get_secret_value(), settings.timeout_seconds, settings.otel) == ("k", 30, True)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"GRAPH_AGENT_TURNS_PER_MINUTE": "hunter2"}, "GRAPH_AGENT_TURNS_PER_MINUTE: Input should be a valid integer"),
        ({"GRAPH_AGENT_MAX_ITERATIONS": "0"}, "GRAPH_AGENT_MAX_ITERATIONS: Input should be greater than or equal to 1"),
        ({"GRAPH_AGENT_MAX_ITERATIONS": "51"}, "GRAPH_AGENT_MAX_ITERATIONS: Input should be less than or equal to 50"),
        ({"GRAPH_AGENT_AFTER_YES": "always"}, "GRAPH_AGENT_AFTER_YES: Input should be 'end', 'explain' or 'go_on'"),
        ({"GRAPH_AGENT_SECRET": "hunter2"}, "GRAPH_AGENT_SECRET: "),
        ({"GRAPH_AGENT_JWT_SECRET": "hunter2"}, "GRAPH_AGENT_JWT_SECRET: must have at least 32 bytes"),
        ({"GRAPH_AGENT_JWKS_URL": "https://hunter2"}, "GRAPH_AGENT_JWT_AUDIENCE is required with bearer tokens"),
        ({"GRAPH_AGENT_OIDC_ISSUER": "http://hunter2"}, "GRAPH_AGENT_OIDC_ISSUER: must be an https URL"),
        ({"GRAPH_AGENT_OIDC_ISSUER": "https://[hunter2"}, "GRAPH_AGENT_OIDC_ISSUER: must be an https URL"),
        ({"GRAPH_AGENT_OIDC_ISSUER": "https://hunter2"}, "GRAPH_AGENT_OIDC_ISSUER needs GRAPH_AGENT_JWKS_URL"),
        ({"GRAPH_AGENT_AUDITOR_CLAIM": "hunter2"}, "GRAPH_AGENT_AUDITOR_CLAIM: must be CLAIM=VALUE"),
        ({"GRAPH_AGENT_ROLES": "hunter2"}, "GRAPH_AGENT_ROLES: must be CLAIM=ROLE,ROLE"),
        ({"GRAPH_AGENT_ROLES": "hunter2=, "}, "GRAPH_AGENT_ROLES: must be CLAIM=ROLE,ROLE"),
        ({"GRAPH_AGENT_ROLES": "scp=hunter2"}, "GRAPH_AGENT_ROLES: must not be a scope"),
        ({"GRAPH_AGENT_TIME_ZONE": "hunter2"}, "GRAPH_AGENT_TIME_ZONE: must be the name of a time zone"),
        ({"GRAPH_AGENT_AUDITOR_CLAIM": "scope=hunter2"}, "GRAPH_AGENT_AUDITOR_CLAIM: must not be a scope"),
        ({"GRAPH_AGENT_AUDITOR_CLAIM": "scp=hunter2"}, "GRAPH_AGENT_AUDITOR_CLAIM: must not be a scope"),
        ({"GRAPH_AGENT_OIDC_CLIENT_ID": "hunter2"}, "GRAPH_AGENT_OIDC_ISSUER and GRAPH_AGENT_OIDC_CLIENT_ID belong together"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable_and_not_the_value(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_settings(variables)
    assert str(error.value).startswith(sentence)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GRAPH_AGENT_POLICY", "CONDITIONS"),
        ("GRAPH_AGENT_POLICY_FILE", "CONDITIONS"),
        ("GRAPH_AGENT_CONDITION", "CONDITIONS"),
        ("GRAPH_AGENT_CONDITIONS_FILE", "CONDITIONS"),
        ("GRAPH_AGENT_CONSTITUTON", "CONSTITUTION"),
        ("graph_agent_timezone", "TIME_ZONE"),
        ("GRAPH_AGENT_MCP_SERVERS", "MCP"),
        ("GRAPH_AGENT_RETENTION", "RETENTION_DAYS"),
        ("GRAPH_AGENT_ROLE", "ROLES"),
        ("GRAPH_AGENT_APPROVERS_KEYS", "APPROVER_KEYS"),
    ],
)
def test_a_misspelt_name_is_an_error_because_its_rules_would_not_be_in_force(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_settings({name: "hunter2"})
    assert str(error.value) == f"{name.upper()} is no setting; the nearest one is GRAPH_AGENT_{meant}"
    assert read_settings({name: ""}) == read_settings({})


def test_a_name_that_is_like_no_setting_is_unknown_but_what_kubernetes_sets_for_a_service_is_not() -> None:
    of_services = {
        "GRAPH_AGENT_SERVICE_HOST": "10.0.0.1",
        "GRAPH_AGENT_SERVICE_PORT_HTTP": "80",
        "GRAPH_AGENT_PORT": "tcp://10.0.0.1:80",
        "GRAPH_AGENT_PORT_80_TCP_ADDR": "10.0.0.1",
        "GRAPH_AGENT_MCP_PORT_8080_TCP": "tcp://10.0.0.2:8080",
        "GRAPH_AGENT_MODEL_SERVICE_HOST": "10.0.0.3",
    }
    others = {
        "GRAPH_AGENT_RULES_OF_CEDAR": "policy.cedar",
        "GRAPH_AGENTS": "x",
        "GRAPH_AGENT_CONDITIONS": "policy.cedar",
        "DATABASE": "x",
    }
    environment = of_services | others
    assert unknown_variables(environment) == ["GRAPH_AGENT_RULES_OF_CEDAR"]
    assert read_settings(environment).conditions == Path("policy.cedar")
    assert set_variables(environment) == ["GRAPH_AGENT_CONDITIONS"]


def test_a_user_without_a_home_reads_which_variable_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_HOME is needed, because this user has no home"):
        read_settings({"GRAPH_AGENT_HOME": "~nobody-has-this-name/data"})

    def no_account(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    # As in a container with `--user 1234`.
    monkeypatch.setattr("pwd.getpwuid", no_account)
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_HOME is needed, because this user has no home"):
        read_settings({})
    assert read_settings({"GRAPH_AGENT_HOME": "/data"}).home == Path("/data")


def test_settings_are_equal_by_value_and_can_be_keys() -> None:
    assert len({read_settings({}), Settings()}) == 1


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/agent/", "https://example.org", "https://[::1]:8443/a/b.c", "HTTPS://example.org/Agent"]
)
def test_a_public_url_has_a_path_that_may_end_with_a_slash(url: str) -> None:
    assert read_settings({"GRAPH_AGENT_PUBLIC_URL": url}).public_url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "/agent",
        "example.org/agent",
        "ftp://example.org",
        "https://example.org/agent?x=1",
        "https://example.org/agent#b",
        "https://ann:secret@example.org/",
        "https://example.org/a/../b",
        "https://example.org/a//b",
        "https://example.org/a b",
        "https://example.org/agent\nSet-Cookie: a=b",
        "https://example.org/%2e%2e",
        "https://example.org/a;b",
    ],
)
def test_a_public_url_with_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_PUBLIC_URL"):
        read_settings({"GRAPH_AGENT_PUBLIC_URL": url})
