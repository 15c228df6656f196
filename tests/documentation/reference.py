"""The reference, written from the code: `make docs` puts it into the site. It is not in the repository."""

from __future__ import annotations

import ast
import enum
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import httpx
import pydantic
import sqlalchemy
import typer
from pydantic_core import PydanticUndefined

import graph_agent
from graph_agent import errors
from graph_agent.api.app import create_app
from graph_agent.api.errors import STATUS, service_error_body
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.cli.main import LazyGroup, app
from graph_agent.cli.running import PROGRAM
from graph_agent.errors import ServiceErrorCode, ToolErrorCode, outcome_unknown
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.llm import LLMErrorCode
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.replays.visited_states import LedgerOutcome
from graph_agent.settings import Settings
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.events import EventKind, progress_event
from tests.llm import wire_table

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`"


def attribute_docs(cls: type) -> dict[str, str]:
    """Return the text below each attribute of a class, in one line."""
    (body,) = [node for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef)]
    found: dict[str, str] = {}
    for node, below in zip(body.body, body.body[1:], strict=False):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[target.id] = " ".join(str(below.value.value).split())
    return found


def paragraphs(doc: str | None) -> str:
    """Return a docstring as Markdown: paragraphs on one line each, indented parts as code."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(doc or ""))
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(part)}\n```" if part.startswith("    ") else " ".join(part.split()) for part in parts
    )


# The command line


def command_line() -> str:
    group = typer.main.get_command(app)
    parts = ["# Command line", paragraphs(group.help), "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."]
    parts.append("## graph-agent")
    parts.append(parameters(group))
    for full, loaded in commands_of(group, PROGRAM):
        arguments = " ".join(one.name.upper() if one.required else f"[{one.name.upper()}]" for one in positional(loaded))
        parts += [f"## {full}", code(f"{full} [OPTIONS] {arguments}".rstrip()), paragraphs(loaded.help), parameters(loaded)]
    return "\n\n".join(part for part in parts if part)


def commands_of(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield each command of a group and of the groups in it, with the words that run it."""
    for name in group.commands:
        _, command, _ = group.resolve_command(None, [name])
        full = f"{prefix} {name}"
        if isinstance(command, LazyGroup):
            yield from commands_of(command, full)
        else:
            yield full, command


def positional(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def parameters(command: Any) -> str:
    def row(one: Any) -> tuple[str, ...]:
        if one.param_type_name == "argument":
            return code(one.name.upper()), one.help or "", "required" if one.required else ""
        value = "" if one.is_flag else f" {one.metavar or one.type_descriptor.annotation.__name__.upper()}"
        if isinstance(one.show_default, str):
            default = one.show_default
        elif one.is_flag or one.default is None or not one.show_default:
            default = "required" if one.required else ""
        else:
            default = code(one.default)
        return code(", ".join([*one.opts, *one.secondary_opts]) + value), one.help or "", default

    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    return table(("parameter", "effect", "default"), map(row, shown)) if shown else ""


# Configuration


def configuration() -> str:
    meanings = attribute_docs(Settings)

    def row(name: str, field: pydantic.fields.FieldInfo) -> tuple[str, ...]:
        default = field.default
        shown = "unset" if default in (None, "", ()) else "off" if default is False else code(default)
        words = {
            "Gt": "more than",
            "Ge": "at least",
            "Le": "at most",
            "MinLen": "characters: at least",
            "MaxLen": "characters: at most",
        }
        bounds = [f"{words[type(one).__name__]} {repr(one).partition('=')[2][:-1]}" for one in field.metadata]
        return code(field.alias), meanings[name], shown, ", ".join(bounds)

    rows = (row(name, field) for name, field in Settings.model_fields.items())
    return "\n\n".join(
        [
            "# Configuration",
            "Every setting is an environment variable. Names ignore case, and an empty value counts as unset. A value that is "
            "not valid stops the start, with one sentence that names the variable and never its value. No other is read, "
            "except those that [the file of MCP servers](../mcp.md#the-file-of-servers) names and, with `GRAPH_AGENT_OTEL`, "
            "those of the OpenTelemetry SDK.",
            table(("variable", "meaning", "default", "limits"), rows),
        ]
    )


# Outcomes and errors


def outcomes() -> str:
    def of(kind: type[enum.StrEnum]) -> str:
        meanings = attribute_docs(kind)
        return table(("value", "meaning"), ((code(one.value), meanings.get(one.name, "")) for one in kind))

    meanings = attribute_docs(ServiceErrorCode)
    by_status = sorted(STATUS.items(), key=lambda item: (item[1], item[0]))
    services = table(("status", "code", "meaning"), ((str(number), code(one), meanings[one.name]) for one, number in by_status))
    return "\n\n".join(
        [
            "# Outcomes and errors",
            "A turn ends in a decision: a failure of the model or of a tool is an outcome, and HTTP answers it with 200.",
            "## Decision types",
            of(DecisionType),
            "## Outcome categories",
            "The log stores one with every decision. A filter takes the complete outcome or a prefix, such as `ERROR`.",
            of(OutcomeCategory),
            "## Intents",
            "The intent is derived from the calls that the model requested. It is null for tools outside this table.",
            of(IntentType),
            "## Dispositions of calls",
            of(CallDisposition),
            "## Verdicts of conditions",
            of(Verdict),
            "## Outcomes in the ledger",
            of(LedgerOutcome),
            "## Error codes of tool calls",
            of(ToolErrorCode),
            "## Error codes of model calls",
            of(LLMErrorCode),
            "## Error codes of the services and the HTTP API",
            'The body is `{"error": {"code": "...", "message": "..."}}`. [HTTP API](../api.md#errors) says what a client does.',
            services,
            "## Exceptions",
            paragraphs(errors.__doc__),
        ]
    )


# The HTTP API


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a JSON Schema as a short text; a named schema as a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(type_of(one) for one in schema.get("anyOf") or schema["oneOf"]))
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"])
    if "const" in schema:
        return code(schema["const"])
    if schema.get("type") == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_of(schema['additionalProperties'])}"
    return " ".join([schema.get("type", "any"), *([f"({schema['format']})"] if "format" in schema else [])])


def limits_of(schema: Mapping[str, Any]) -> str:
    words = {"minLength": "min. length", "maxLength": "max. length", "minimum": "min.", "maximum": "max.", "pattern": "pattern"}
    values = [one for one in (schema, *schema.get("anyOf", ())) if isinstance(one, dict)]
    return ", ".join(f"{words[key]} {code(one[key])}" for one in values for key in words if key in one)


def fields_of(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())

    def row(name: str, field: Mapping[str, Any]) -> tuple[str, ...]:
        text = " ".join(filter(None, [field.get("description", "").replace("\n", " "), limits_of(field)]))
        return code(name), type_of(field), "yes" if name in required else "", text

    return table(("field", "type", "required", ""), (row(*item) for item in schema["properties"].items()))


def http_api(document: Mapping[str, Any]) -> str:
    parts = [
        "# HTTP routes",
        "Made from the OpenAPI document, which a server has at `/openapi.json`. [HTTP API](../api.md) explains confirmation, "
        "streams, authentication, limits and errors. The document leaves out what no client of this API calls: the page, "
        "`/metrics`, `/agui`, and the sign-in routes of a server without an OIDC issuer.",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += [f"## {method.upper()} {path}", paragraphs(operation.get("description"))]
            if given := operation.get("parameters"):
                rows = (
                    (
                        code(one["name"]),
                        one["in"],
                        type_of(one["schema"]),
                        " ".join(filter(None, [one.get("description", ""), limits_of(one["schema"])])),
                    )
                    for one in given
                )
                parts.append(table(("parameter", "in", "type", ""), rows))
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                for form in content["schema"].get("anyOf", [content["schema"]]):
                    parts.append(
                        f"Body, {code(media)}: {form.get('description', '').splitlines()[0] if form.get('description') else ''}"
                    )
                    parts.append(fields_of(form) if "properties" in form else type_of(form))
            answers = (
                (
                    status,
                    " or ".join(type_of(content.get("schema", {})) for content in answer.get("content", {}).values()),
                    answer["description"],
                )
                for status, answer in sorted(operation["responses"].items())
            )
            parts.append(table(("status", "body", ""), answers))
    parts.append("## Schemas")
    for name, schema in sorted(document["components"]["schemas"].items()):
        text = paragraphs(schema.get("description"))
        parts += [f"### {name}", text, fields_of(schema) if "properties" in schema else f"One of {type_of(schema)}."]
    return "\n\n".join(part for part in parts if part)


# Stream events


def shape(value: object) -> str:
    """Return the JSON type of a value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array", type(None): "null"}
    return names[type(value)]


_TIMES = ("ms", "at_ms")
_RUNNING = ((None, None), ("Add task", "run"))


def stream_events(streams: list[str]) -> str:
    """`streams` are the bodies of `POST /api/chat/stream`, of turns that together have every kind of event."""
    fields: dict[str, dict[str, dict[str, str]]] = {}
    received = re.findall(r"^event: (\w+)\r?\ndata: (.*?)\r?$", "\n".join(streams), re.MULTILINE)
    # The turns' tools are too quick to report progress, their calls may be too quick to be seen, and none of the turns fails.
    received = [(kind, data) for kind, data in received if kind != EventKind.CALL]
    received += [(EventKind.CALL, json.dumps({"title": title, "mode": mode, "ms": 0})) for title, mode in _RUNNING]
    progress = ToolProgress(done=0.4, total=1.0, message="copying files")
    received.append((EventKind.PROGRESS.value, json.dumps(progress_event(progress).data)))
    received.append((EventKind.ERROR.value, json.dumps(service_error_body(outcome_unknown("ID")))))
    for kind, data in received:
        for name, value in json.loads(data).items():
            varies = isinstance(value, dict) or name in _TIMES or UUID.search(str(value))
            example = "" if varies else code(json.dumps(value, ensure_ascii=False))
            fields.setdefault(kind, {}).setdefault(name, {}).setdefault(shape(value), example)
    assert set(fields) == set(EventKind), "a kind of event did not occur"
    meanings = attribute_docs(EventKind)
    parts = [
        "# Stream events",
        "The events of `POST /api/chat/stream` and `GET /api/decisions/{id}/events`, in the order in which they occur; "
        "[HTTP API](../api.md#events) says how a stream is continued. The fields and examples are those of real turns.",
    ]
    for kind in EventKind:
        rows = (
            (code(name), " or ".join(types), ", ".join(filter(None, types.values())))
            for name, types in fields[kind.value].items()
        )
        parts += [f"## {kind.value}", meanings[kind.name], table(("field", "type", "example"), rows)]
    return "\n\n".join(parts)


# Python


def python_names() -> str:
    parts = [
        "# Python",
        "Every public name can be imported from `graph_agent`. A name's module is loaded when the name is first used. "
        "[The library example](../library.md#your-own-adapter-and-executor) shows how they work together.",
    ]
    for module, names in graph_agent._NAMES.items():  # type: ignore[attr-defined]  # noqa: SLF001 (it is not in the stub, which is made of it)
        parts += [
            f"## graph_agent.{module}",
            paragraphs((import_module(f"graph_agent.{module}").__doc__ or "").partition("\n\n")[0]),
        ]
        for name in names:
            parts += [f"### {name}", *describe(name, getattr(import_module(f"graph_agent.{module}"), name))]
    return "\n\n".join(part for part in parts if part)


def describe(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type):
        own = value.__dict__.get("__doc__")
        if issubclass(value, enum.Enum):
            yield paragraphs(own)
            yield "Values: " + ", ".join(code(one.value) for one in value) + "."
        elif issubclass(value, pydantic.BaseModel):
            yield paragraphs(own)
            docs = attribute_docs(value)
            rows = (
                (code(one), code(annotation(field.annotation)), default_of(field), docs.get(one, field.description or ""))
                for one, field in value.model_fields.items()
            )
            yield table(("field", "type", "default", ""), rows)
        else:
            if "__init__" in value.__dict__ and not issubclass(value, Exception):
                yield code(f"{name}{signature(value)}")
            yield paragraphs(own)
        # With those that a class inherits from another one of the package; a model inherits only what every model has.
        own_classes = [base for base in value.__mro__ if base.__module__.startswith("graph_agent.")]
        if issubclass(value, pydantic.BaseModel):
            own_classes = [value]
        members = {one: function for base in reversed(own_classes) for one, function in vars(base).items()}
        methods = [(one, function) for one, function in members.items() if inspect.isfunction(function) and one[0] != "_"]
        if methods and not issubclass(value, enum.Enum):
            described = (
                (code(f"{one}{signature(function)}"), paragraphs(function.__doc__).partition("\n\n")[0])
                for one, function in methods
            )
            yield table(("method", ""), described)
    elif callable(value):
        yield code(f"{name}{signature(value)}")
        yield paragraphs(value.__doc__)
    elif isinstance(value, int | float | str):
        yield f"The constant {code(value)}."
    elif isinstance(value, sqlalchemy.Table):
        yield f"The table {code(value.name)}."
        yield table(("column", "type"), ((code(one.name), code(repr(one.type).partition("(")[0])) for one in value.columns))
    else:
        listed = sorted(value) if isinstance(value, frozenset) else value
        yield f"A constant with {', '.join(code(getattr(one, 'name', one)) for one in listed)}."


def annotation(kind: Any) -> str:
    text = re.sub(
        r"\b(?:\w+\.)+(?=\w)", "", kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    )
    return re.sub(r"Annotated\[(\w+), .*\]", r"\1", text)


def default_of(field: pydantic.fields.FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is not PydanticUndefined:
        return code(field.default.value if isinstance(field.default, enum.Enum) else field.default)
    return code(f"{field.default_factory.__name__}()" if field.default_factory in (dict, list) else "computed")


def signature(function: Any) -> str:
    found = inspect.signature(function)
    kept = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values() if one.name != "self"]
    # The text of a function or object has its address in memory.
    shown = [one.replace(default=...) if "<" in repr(one.default) and one.default is not one.empty else one for one in kept]
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


# All pages


async def pages() -> dict[str, str]:
    """Return every page of the reference by its place in the site."""
    async with open_runtime(temporary_settings(Settings()), model="embedded") as runtime:
        server = create_app(runtime)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server), base_url="http://127.0.0.1") as client:
            sentences = ("add a task to call mom", "delete the call mom task")
            streams = [(await client.post("/api/chat/stream", json={"content": one})).text for one in sentences]
        document = server.openapi()
    found = {
        "cli": command_line(),
        "configuration": configuration(),
        "events": stream_events(streams),
        "http": http_api(document),
        "model_errors": wire_table.page(),
        "outcomes": outcomes(),
        "python": python_names(),
    }
    return {f"reference/{name}.md": f"{text}\n" for name, text in found.items()}
