"""The settings of a process. No other module reads environment variables, but for those that the file of MCP servers names.

The model does not use pydantic-settings, which would also read a variable with the name of a field (HOME for `home`) and takes
long to import.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator

from graph_agent.errors import ConfigurationError
from graph_agent.models.approval import MAX_APPROVAL_HOURS
from graph_agent.models.base import located_violation, nearest_name
from graph_agent.models.config import Rounds
from graph_agent.models.decision import MAX_HISTORY_MESSAGES, AfterYes

MAX_RETENTION_DAYS = 36_500
_PREFIX = "GRAPH_AGENT_"
_SERVICE_LINK = re.compile(r".*(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""The variables that Kubernetes sets in each pod for a service whose name begins with `graph-agent`."""
_PUBLIC_URL = re.compile(r"https?://([\w.-]+|\[[\da-f:]+\])(:\d{1,5})?(/(?!\.{1,2}(/|$))[\w.~-]+)*/?", re.ASCII | re.IGNORECASE)


class Settings(BaseModel):
    """The settings. Each field's alias is the name of its environment variable."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, validate_default=True)

    home: Path = Field(default=Path("~/.graph_agent"), alias="GRAPH_AGENT_HOME")
    """The folder of the default database and of the keys."""
    database_url: str = Field(default="", alias="DATABASE_URL")
    """Tasks, conversations and the record."""
    log_read_url: str = Field(default="", alias="LOG_READ_URL")
    """A replica of the record, for queries."""
    database_connections: int = Field(default=12, ge=4, le=1000, alias="GRAPH_AGENT_DATABASE_CONNECTIONS")
    """The limit of the connections of a process to the PostgreSQL database, and to a replica of it."""
    listen_url: str = Field(default="", alias="GRAPH_AGENT_LISTEN_URL")
    """A direct connection to the database of DATABASE_URL, for notifications, if that URL is one of a pooler."""
    constitution: Path | None = Field(default=None, alias="GRAPH_AGENT_CONSTITUTION")
    """The file that says what may be done; unset: the shipped one."""
    conditions: Path | None = Field(default=None, alias="GRAPH_AGENT_CONDITIONS")
    """The file of conditions in Cedar, which restrict the constitution further; unset: none."""
    roles: str | None = Field(default=None, alias="GRAPH_AGENT_ROLES")
    """`CLAIM=ROLE,ROLE`: the claim of the bearer tokens that has the user's roles, and the roles that conditions may name."""
    time_zone: str = Field(default="UTC", alias="GRAPH_AGENT_TIME_ZONE")
    """The time zone in which conditions see the hour and the day, and in which days are counted, such as Europe/Berlin."""
    mcp: Path | None = Field(default=None, alias="GRAPH_AGENT_MCP")
    """The file that lists the MCP servers; unset: the shipped task server."""
    secret: SecretStr | None = Field(default=None, alias="GRAPH_AGENT_SECRET", min_length=16)
    """Signs confirmations; required once authentication is configured."""
    previous_secrets: tuple[SecretStr, ...] = Field(default=(), alias="GRAPH_AGENT_PREVIOUS_SECRETS")
    """Earlier secrets, separated by commas: what they have signed and sealed stays valid."""

    log_origin: str | None = Field(default=None, max_length=200, alias="LOG_ORIGIN")
    """The name of the record's log, such as `tasks.example.org/log`, when its key is created; unset: a random name."""
    log_signing_keys: tuple[SecretStr, ...] = Field(default=(), alias="LOG_SIGNING_KEY")
    """The keys that sign the log, separated by commas, the current one first: lines of a key file, or random texts of at least
    32 characters. Unset: the file `log.key` of the home. Every replica needs the same."""
    log_witnesses: tuple[str, ...] = Field(default=(), alias="LOG_WITNESSES")
    """Witnesses as `URL KEY`, separated by commas, beside those of `log witness add`."""

    model: str | None = Field(default=None, alias="GRAPH_AGENT_MODEL")
    """`embedded`, `embedded:FILE`, `gemini`, `openai` or `scripted:FILE`; unset: Gemini with a key, else the embedded one."""
    gemini_api_key: SecretStr | None = Field(default=None, alias="GEMINI_API_KEY")
    """The key of Gemini; with it, Gemini is the default model."""
    gemini_model: str | None = Field(default=None, alias="GEMINI_MODEL")
    """The name of the Gemini model; unset: `gemini-3.8-flash`."""
    gemini_base_url: str | None = Field(default=None, alias="GEMINI_BASE_URL")
    """Another address of Gemini's API."""
    openai_api_key: SecretStr | None = Field(default=None, alias="OPENAI_API_KEY")
    """The key of the OpenAI-compatible server, if it needs one."""
    openai_model: str | None = Field(default=None, alias="OPENAI_MODEL")
    """The name of the model on that server."""
    openai_base_url: str | None = Field(default=None, alias="OPENAI_BASE_URL")
    """The address of the OpenAI-compatible server; unset: Gemini's endpoint."""

    allow_model_storage: bool = Field(default=False, alias="GRAPH_AGENT_ALLOW_MODEL_STORAGE")
    """Let Google and OpenAI store prompts and answers if your project there says so; otherwise each request asks not to."""

    timeout_seconds: float = Field(default=30, gt=0, le=3600, alias="GRAPH_AGENT_TIMEOUT_SECONDS")
    """A turn's deadline."""
    attempt_seconds: float | None = Field(default=None, gt=0, le=3600, alias="GRAPH_AGENT_ATTEMPT_SECONDS")
    """The limit of one request to the model; unset: the time that is left of the turn."""
    max_iterations: Rounds | None = Field(default=None, alias="GRAPH_AGENT_MAX_ITERATIONS")
    """The limit for the rounds of tool calls of a turn, up to 50; unset: 5, and 15 in the agent service."""
    after_yes: AfterYes = Field(default=AfterYes.EXPLAIN, alias="GRAPH_AGENT_AFTER_YES")
    """After a yes: `end` ends the turn, `explain` asks the model if something failed, `go_on` asks it always."""
    approval_hours: float = Field(default=24, gt=0, le=MAX_APPROVAL_HOURS, alias="GRAPH_AGENT_APPROVAL_HOURS")
    """The hours for which a call waits for the approval of other people, at most 720."""
    approval_messages: int = Field(default=0, ge=0, le=MAX_HISTORY_MESSAGES, alias="GRAPH_AGENT_APPROVAL_MESSAGES")
    """The number of messages before the one that asked for a call that its approvers see."""
    approver_keys: Path | None = Field(default=None, alias="GRAPH_AGENT_APPROVER_KEYS")
    """The `allowed_signers` file with the SSH keys of approvers: then only answers count that they have signed."""
    webhook_url: str | None = Field(default=None, alias="GRAPH_AGENT_WEBHOOK_URL")
    """The address to which notices about approval requests are posted, as Standard Webhooks; unset: none."""
    webhook_secret: SecretStr | None = Field(default=None, alias="GRAPH_AGENT_WEBHOOK_SECRET")
    """The key that signs the notices: `whsec_` and at least 24 bytes in base64."""
    webhook_texts: bool = Field(default=False, alias="GRAPH_AGENT_WEBHOOK_TEXTS")
    """Send the description of the call and its requester with each notice."""
    turns_per_minute: int = Field(default=60, ge=1, alias="GRAPH_AGENT_TURNS_PER_MINUTE")
    """The limit for each user, across all replicas."""
    turn_tokens: int | None = Field(default=None, ge=1, alias="GRAPH_AGENT_TURN_TOKENS")
    """A turn that has used so many tokens calls the model no more; unset: no limit."""
    day_tokens: int | None = Field(default=None, ge=1, alias="GRAPH_AGENT_DAY_TOKENS")
    """A user whose turns have used so many tokens in a day of the time zone gets no further answer of the model that day."""
    retention_days: int = Field(default=30, ge=1, le=MAX_RETENTION_DAYS, alias="GRAPH_AGENT_RETENTION_DAYS")
    """The time for which decisions are kept. High-risk uses in the EU need at least six months: 183."""
    disclosure: str = Field(default="You are talking to an AI system.", max_length=500, alias="GRAPH_AGENT_DISCLOSURE")
    """The line by which users learn that they talk to an AI, with the first answer of a conversation; `off`: none."""

    public_url: str | None = Field(default=None, alias="GRAPH_AGENT_PUBLIC_URL")
    """The address of the page, such as `https://example.org/agent`, if a proxy serves it under a path of its host or by TLS."""

    page_name: str | None = Field(default=None, min_length=1, max_length=40, alias="GRAPH_AGENT_PAGE_NAME")
    """The name that the page shows in its bar and its titles; unset: graph_agent."""
    page_logo: Path | None = Field(default=None, alias="GRAPH_AGENT_PAGE_LOGO")
    """A PNG or SVG file that the page shows before its name, at most 256 KB."""

    otel: bool = Field(default=False, alias="GRAPH_AGENT_OTEL")
    """Export traces, metrics and logs by OpenTelemetry; its SDK reads its own OTEL_* variables."""

    jwt_secret: SecretStr | None = Field(default=None, alias="GRAPH_AGENT_JWT_SECRET")
    """HS256 key of the bearer tokens, at least 32 bytes."""
    jwks_url: str | None = Field(default=None, alias="GRAPH_AGENT_JWKS_URL")
    """The address of the public keys of the bearer tokens, instead of a shared key."""
    jwt_audience: str | None = Field(default=None, alias="GRAPH_AGENT_JWT_AUDIENCE")
    """The audience that tokens must have; required with bearer tokens."""
    jwt_issuer: str | None = Field(default=None, alias="GRAPH_AGENT_JWT_ISSUER")
    """The authorization server: its URL, as tokens have it in `iss`. Unset: the issuer is not checked."""
    jwt_max_hours: float = Field(default=24, gt=0, alias="GRAPH_AGENT_JWT_MAX_HOURS")
    """The longest remaining lifetime of a bearer token that is accepted."""
    oidc_issuer: str | None = Field(default=None, alias="GRAPH_AGENT_OIDC_ISSUER")
    """The issuer at which users of the page sign in; without `jwt_issuer` the bearer tokens must be this issuer's."""
    allow_http: bool = Field(default=False, alias="GRAPH_AGENT_ALLOW_HTTP")
    """Allow plain `http:` for the issuer and the public keys on other machines, if a network of your own protects them."""
    oidc_client_id: str | None = Field(default=None, alias="GRAPH_AGENT_OIDC_CLIENT_ID")
    """The client id of the page at that issuer."""
    oidc_scope: str = Field(default="openid", alias="GRAPH_AGENT_OIDC_SCOPE")
    """The scopes that the page asks for, separated by spaces."""
    auditors: tuple[str, ...] = Field(default=(), alias="GRAPH_AGENT_AUDITORS")
    """The subjects, separated by commas, whose tokens may read the record of all users."""
    auditor_claim: str | None = Field(default=None, alias="GRAPH_AGENT_AUDITOR_CLAIM")
    """`CLAIM=VALUE`: tokens with this value in this claim, or in its list, may read the record of all users."""
    operators: tuple[str, ...] = Field(default=(), alias="GRAPH_AGENT_OPERATORS")
    """The subjects, separated by commas, whose tokens may stop everything and resume it."""

    @field_validator("home")
    @classmethod
    def _expanded(cls, value: Path) -> Path:
        try:
            return value.expanduser()
        except RuntimeError:
            # A container may run with a user id that has no account, and without HOME.
            text = "GRAPH_AGENT_HOME is needed, because this user has no home folder: a folder that this process may write"
            raise ConfigurationError(text) from None

    @field_validator("previous_secrets", "auditors", "operators", "log_signing_keys", "log_witnesses", mode="before")
    @classmethod
    def _separated(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("time_zone")
    @classmethod
    def _existing_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("must be the name of a time zone, such as Europe/Berlin") from None
        return value

    @field_validator("public_url")
    @classmethod
    def _address_of_a_folder(cls, value: str | None) -> str | None:
        if value is not None and not _PUBLIC_URL.fullmatch(value):
            raise ValueError("must be an http or https URL without a query, such as https://example.org/agent")
        return value and value.rstrip("/")

    @field_validator("jwt_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < 32:
            raise ValueError("must have at least 32 bytes")
        return value

    @field_validator("auditor_claim", "roles")
    @classmethod
    def _not_requested_by_users(cls, value: str | None, info: ValidationInfo) -> str | None:
        claim, _, expected = (value or "").partition("=")
        if value is not None and not (claim and expected.strip(", ")):
            raise ValueError(f"must be CLAIM={'VALUE' if info.field_name == 'auditor_claim' else 'ROLE,ROLE'}")
        if claim in ("scope", "scp"):
            raise ValueError("must not be a scope, which users request for themselves")
        return value

    @model_validator(mode="after")
    def _authentication_is_complete(self) -> Self:
        if self.authenticates and not self.jwt_audience:
            raise ValueError("GRAPH_AGENT_JWT_AUDIENCE is required with bearer tokens")
        if self.authenticates and self.secret is None:
            raise ValueError("GRAPH_AGENT_SECRET is required with bearer tokens: every replica must sign with the same key")
        if self.jwt_secret is not None and self.jwks_url is not None:
            raise ValueError("set either GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL, not both")
        return self

    @model_validator(mode="after")
    def _issuer_is_protected(self) -> Self:
        # The code and the token travel between this server and the issuer, and the keys decide which tokens are accepted.
        this_machine = r"http://(localhost|127\.0\.0\.1|\[::1\])(:|/|$)"
        allowed = r"https?://[^/]" if self.allow_http else rf"https://[^/]|{this_machine}"
        for name, url in (("GRAPH_AGENT_OIDC_ISSUER", self.oidc_issuer), ("GRAPH_AGENT_JWKS_URL", self.jwks_url)):
            if url is not None and not (re.match(allowed, url) and _can_be_parsed(url)):
                text = "must be an https URL, or an http URL of this machine (GRAPH_AGENT_ALLOW_HTTP allows others)"
                raise ValueError(f"{name}: {text}")
        return self

    @model_validator(mode="after")
    def _webhook_is_complete(self) -> Self:
        if self.webhook_url is None:
            return self
        this_machine = r"http://(localhost|127\.0\.0\.1|\[::1\])(:|/|$)"
        if not re.match(rf"https://[^/]|{this_machine}", self.webhook_url) or not _can_be_parsed(self.webhook_url):
            raise ValueError("GRAPH_AGENT_WEBHOOK_URL: must be an https URL, or an http URL of this machine")
        if self.webhook_key is None:
            raise ValueError("GRAPH_AGENT_WEBHOOK_SECRET: must be whsec_ and at least 24 bytes in base64")
        return self

    @model_validator(mode="after")
    def _sign_in_is_complete(self) -> Self:
        if self.oidc_issuer is not None and self.jwks_url is None:
            raise ValueError("GRAPH_AGENT_OIDC_ISSUER needs GRAPH_AGENT_JWKS_URL, the address of the issuer's keys")
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise ValueError("GRAPH_AGENT_OIDC_ISSUER and GRAPH_AGENT_OIDC_CLIENT_ID belong together")
        return self

    @property
    def webhook_key(self) -> bytes | None:
        """The key of the webhook; None if it is missing or malformed."""
        prefix, _, text = (self.webhook_secret.get_secret_value() if self.webhook_secret else "").partition("_")
        try:
            key = base64.b64decode(text, validate=True)
        except ValueError:
            return None
        return key if prefix == "whsec" and len(key) >= 24 else None

    @property
    def disclosed(self) -> str | None:
        """The line that says that one talks to an AI, unless it is switched off."""
        return None if self.disclosure == "off" else self.disclosure

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles that conditions may name."""
        return tuple(role.strip() for role in (self.roles or "").partition("=")[2].split(",") if role.strip())

    @property
    def rule_files(self) -> dict[str, str]:
        """The absolute paths of the files that say what may be done, and by which servers, by the name of their option."""
        named = {"mcp": self.mcp, "constitution": self.constitution, "conditions": self.conditions}
        return {name: str(path.expanduser().absolute()) for name, path in named.items() if path is not None}

    @property
    def authenticates(self) -> bool:
        """True if requests need a bearer token. Otherwise there is one local user, on loopback addresses only."""
        return self.jwt_secret is not None or self.jwks_url is not None

    @property
    def database(self) -> str:
        """The URL of the database."""
        return self.database_url or f"sqlite:///{self.home / 'graph_agent.db'}"

    @property
    def log_reads(self) -> str:
        """The URL of the database that queries of the record read."""
        return self.log_read_url or self.database


def _can_be_parsed(url: str) -> bool:
    try:
        return bool(urlsplit(url))
    except ValueError:  # such as an address in brackets that do not end
        return False


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of this process. Variable names ignore case, and an empty value counts as unset.

    Raises `ConfigurationError` with one sentence that names the variable, never its value; also for a name that looks like a
    misspelt one, because a file of rules that is named by it would not be in force.
    """
    variables = _variables(environment)
    for name in unknown_variables(environment):
        if (meant := _meant(name)) is not None:
            raise ConfigurationError(f"{name} is no setting; the nearest one is {meant}")
    try:
        return Settings.model_validate({name: variables[name] for name in set_variables(environment)})
    except ValidationError as exc:
        raise ConfigurationError(located_violation(exc)) from None


def set_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the settings that the environment sets, in their order."""
    variables = _variables(environment)
    return [name for name in _names() if name in variables]


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the variables that are named like settings but are none of this version, sorted."""
    unknown = _variables(environment).keys() - _names()
    return sorted(name for name in unknown if name.startswith(_PREFIX) and not _SERVICE_LINK.fullmatch(name))


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name.upper(): value for name, value in environment.items() if value}


def _names() -> list[str]:
    return [str(field.alias) for field in Settings.model_fields.values()]


def _meant(name: str) -> str | None:
    """Return the setting that is written almost like `name`, or begins it, or is begun by it; None if there is none."""
    # The conditions are a part of the policy, so that they are looked for under its name: without them nothing is restricted.
    name = name.replace(f"{_PREFIX}POLICY", f"{_PREFIX}CONDITIONS")
    known = {one.removeprefix(_PREFIX): one for one in _names() if one.startswith(_PREFIX)}
    close = nearest_name(name.removeprefix(_PREFIX), known, 0.8)
    if close is not None:
        return known[close]
    return next((one for one in known.values() if f"{name}_".startswith(f"{one}_") or f"{one}_".startswith(f"{name}_")), None)
