"""Scenarios of unusable replies with the status 200: each must become INVALID_RESPONSE, never an empty success or a crash."""

from __future__ import annotations

import gzip
import json
from typing import Any

from graph_agent.llm.http_client import MAX_BODY_BYTES
from tests.llm.wire_apis import API, NOTHING, Call
from tests.llm.wire_scenarios import INVALID, Scenario, one
from tests.llm.wire_server import chunked, sends


def _raw(wire: str, body: bytes, *, unusable: bool = True, **settings: Any) -> Scenario:
    return Scenario(wire, lambda _: [sends(body, **settings)], INVALID, unusable=unusable)


def _said(wire: str, body: Any, only: str | None = None) -> Scenario:
    return Scenario(wire, one(body), INVALID, only=only, unusable=True)


def _call(wire: str, call: Call, only: str | None = None) -> Scenario:
    return _said(wire, lambda s: s.answer(calls=[call], finish="calls"), only)


def _parts(wire: str, *parts: Any) -> Scenario:
    return _said(wire, lambda s: s.wrap({"role": "model", "parts": list(parts)}), "gemini")


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _big(api: API) -> bytes:
    return json.dumps(api.answer(text="x" * (MAX_BODY_BYTES + 1))).encode()


BODIES = (
    _raw("an empty body", b""),
    _raw("an empty object", b"{}"),
    _raw("null", b"null"),
    _raw("an empty list", b"[]"),
    _raw("a list with an object", b"[{}]"),
    _raw("a string", b'"hello"'),
    _raw("a number", b"42"),
    _raw("plain text", b"upstream connect error"),
    _raw("a page of HTML with status 200", b"<html><body>Sign in</body></html>", content_type="text/html"),
    _raw("JSON with a byte order mark", b"\xef\xbb\xbf{}"),
    _raw("bytes that are not UTF-8", b'{"candidates": "\xff\xfe"}', unusable=False),
    _raw("a body that does not decompress", b"not gzip", unusable=False, content_encoding="gzip"),
    _raw("a hundred thousand brackets", b"[" * 100_000),
    _raw("an integer of five thousand digits", b"1" * 5000),
    _raw("an error in a body with status 200", b'{"error": {"code": 500, "message": "no"}}'),
    _raw("status 204", b"", unusable=False, status=204),
    _raw("status 202", b"{}", unusable=False, status=202),
    Scenario(
        "JSON that ends in the middle",
        lambda s: [sends(json.dumps(s.answer(text="Hello.")).encode()[:-9])],
        INVALID,
        unusable=True,
    ),
    Scenario("a body beyond the limit", lambda s: [sends(_big(s))], INVALID),
    Scenario(
        "a small body that decompresses beyond the limit",
        lambda s: [sends(gzip.compress(_big(s)), content_encoding="gzip")],
        INVALID,
    ),
    _raw("a compressed body of an encoding that was not offered", b"\x0b\x02\x80\xff", unusable=False, content_encoding="br"),
    Scenario("a body beyond the limit, in chunks without a length", lambda s: [chunked(_big(s), 65536)], INVALID),
)

SHAPES = (
    _said("no candidates", lambda s: {s.many: []}),
    _said("null for the candidates", lambda s: {s.many: None}),
    _said("an object for the candidates", lambda s: {s.many: {}}),
    _said("a candidate that is null", lambda s: {s.many: [None]}),
    _said("a candidate that is empty", lambda s: {s.many: [{}]}),
    _said("no content", lambda s: s.wrap(NOTHING)),
    _said("null for the content", lambda s: s.wrap(None)),
    _said("a list for the content", lambda s: s.wrap([])),
    _said("empty content", lambda s: s.wrap({})),
    _said("a stop without content", lambda s: s.answer()),
    _said("an empty text", lambda s: s.answer(text="")),
    _said("a blank text", lambda s: s.answer(text=" \n ")),
    _said("a number for the text", lambda s: s.answer(text=7)),
    _said("a finish reason for calls, and no calls", lambda s: s.answer(finish="calls")),
    _said("neither content nor a finish reason", lambda s: s.answer(finish=NOTHING)),
    _said("a number for the finish reason", lambda s: s.answer(text="Yes.", finish=3)),
    _said("an unknown finish reason", lambda s: s.answer(text="Yes.", finish="BECAUSE")),
    _said("the finish reason of a malformed call", lambda s: s.answer(finish="malformed")),
    _said("the reason OTHER", lambda s: s.answer(text="Yes.", finish="other")),
    _said("null for the parts", lambda s: s.wrap({"role": "model", "parts": None}), "gemini"),
    _said("an object for the parts", lambda s: s.wrap({"role": "model", "parts": {}}), "gemini"),
    _parts("parts that are strings", "hello"),
    _parts("a part that is null", None),
    _parts("thoughts only", {"text": "Hm", "thought": True}),
    _parts("an image only", {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
    _parts("code and its result only", {"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}),
    _parts("a damaged signature", {"text": "Yes.", "thoughtSignature": "%%%"}),
    _parts("a signature that is a number", {"text": "Yes.", "thoughtSignature": 7}),
    _said("thoughts only, in tags that are never closed", lambda s: s.answer(text="<think>Hm"), "openai"),
    _said("thoughts only", lambda s: s.wrap({"role": "assistant", "reasoning_content": "Hm"}), "openai"),
)

CALLS = (
    _call("a call without a name", Call(name=NOTHING)),
    _call("a call with an empty name", Call(name="")),
    _call("a call with a null name", Call(name=None)),
    _call("a call with a number for a name", Call(name=7)),
    _call("a call named default_api.", Call(name="default_api.")),
    _call("arguments that are a string", Call(args="note")),
    _call("arguments that are a list", Call(args=["x"])),
    _call("arguments that are a number", Call(args=7)),
    _call("an id that is a number", Call(id=7)),
    _call("a damaged signature on a call", Call(signature="%%%")),
    _call("NaN in arguments", Call(args={"size": float("nan")})),
    _call("Infinity in arguments", Call(args={"size": float("inf")})),
    _call("arguments a hundred levels deep", Call(args={"note": _deep(100)})),
    _call("arguments with a hundred thousand values", Call(args={"note": [1] * 100_000})),
    _call("a NUL in arguments", Call(args={"note": "a\0b"})),
    _call("a lone surrogate in arguments", Call(args={"note": "\ud83d"})),
    _said("two calls with one id", lambda s: s.answer(calls=[Call(id="a"), Call(id="a")])),
    _said("a good call and a nameless one", lambda s: s.answer(calls=[Call(), Call(name="")])),
    _said("a NUL in the text", lambda s: s.answer(text="a\0b")),
    _said("a lone surrogate in the text", lambda s: s.answer(text="\ud83d")),
    _parts("1e999 in arguments", {"functionCall": {"name": "measure", "args": {"size": float("inf")}}}),
    _parts("a call that is null", {"functionCall": None}),
    _parts("a call that is a string", {"functionCall": "measure()"}),
    _said(
        "arguments that are broken JSON",
        lambda s: s.wrap({"tool_calls": [{"id": "a", "function": {"name": "measure", "arguments": '{"note": '}}]}),
        "openai",
    ),
    _said(
        "arguments with a key twice",
        lambda s: s.wrap(
            {"tool_calls": [{"id": "a", "function": {"name": "measure", "arguments": '{"note":"a","note":"b"}'}}]}
        ),
        "openai",
    ),
    _said("calls that are an object", lambda s: s.wrap({"tool_calls": {"name": "measure"}}), "openai"),
    _said("a call that is null", lambda s: s.wrap({"tool_calls": [None]}), "openai"),
    _said("a call without a function", lambda s: s.wrap({"tool_calls": [{"id": "a"}]}), "openai"),
)
