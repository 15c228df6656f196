"""Scenarios of usable replies: text and calls in every form, truncated text, and content filters."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

from tests.llm.wire_apis import API, NOTHING, SIGNATURE, Call
from tests.llm.wire_scenarios import BLOCKED, Scenario, calls, one, text, truncated
from tests.llm.wire_server import chunked, says, sends

NOTE = {"note": "x"}
LONG_BLANK = f"a <{' ' * 2**18}z"
UNPARSED = "Yes.<｜tool▁calls▁begin｜>f<｜tool▁sep｜>measure{}"
CHANNEL_CALL = '<|channel|>commentary to=functions.measure <|constrain|>json<|message|>{"size": 3}'


def _bytes(api: API, **said: Any) -> bytes:
    return json.dumps(api.answer(**said), ensure_ascii=False).encode()


def _parts(*parts: Any) -> Any:
    return one(lambda s: s.wrap({"role": "model", "parts": list(parts)}))


def _message(**fields: Any) -> Any:
    return one(lambda s: s.wrap({"role": "assistant", **fields}))


def _filter(name: str) -> Scenario:
    return Scenario(f"the filter {name}", one(lambda s: s.wrap(NOTHING, name)), BLOCKED, only="gemini")


def _squeezed(data: bytes, window: int) -> bytes:
    squeezing = zlib.compressobj(wbits=window)
    return squeezing.compress(data) + squeezing.flush()


def _compressed(wire: str, encoding: str, window: int) -> Scenario:
    return Scenario(wire, lambda s: [sends(_squeezed(_bytes(s, text="Yes."), window), content_encoding=encoding)], text("Yes."))


def _written_form(arguments: str) -> Any:
    """A call of the form `ask_user` or `answer`, its arguments as the text that the model has written so far."""
    name = "answer" if '"text"' in arguments else "ask_user"
    return one(lambda s: s.wrap({"tool_calls": [{"id": "a", "function": {"name": name, "arguments": arguments}}]}, "truncated"))


def _args(given: Any) -> Any:
    return one(lambda s: s.answer(calls=[Call(args=given)], finish="calls"))


TEXTS = (
    Scenario("text", one(lambda s: s.answer(text="Hello.")), text("Hello.")),
    Scenario(
        "text with emoji, accents and escapes", one(lambda s: s.answer(text="é 🎉 \\u0000 \\n")), text("é 🎉 \\u0000 \\n")
    ),
    Scenario("text in several parts", _parts({"text": "Hel"}, {"text": "lo."}), text("Hello."), only="gemini"),
    Scenario(
        "text in several parts",
        _message(content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]),
        text("Hello."),
        only="openai",
    ),
    Scenario("a refusal in its own field", _message(content=None, refusal="I can't."), text("I can't."), only="openai"),
    Scenario("thoughts beside text", _parts({"text": "Hm", "thought": True}, {"text": "Yes."}), text("Yes."), only="gemini"),
    Scenario("thoughts beside text", _message(content="Yes.", reasoning_content="Hm"), text("Yes."), only="openai"),
    Scenario(
        "thoughts in front of the text, in tags",
        one(lambda s: s.answer(text="<think>Hm</think>\n\nYes.")),
        text("Yes."),
        only="openai",
    ),
    Scenario(
        "a thought among the parts",
        _message(content=[{"type": "reasoning", "text": "Hm"}, {"type": "text", "text": "Yes."}]),
        text("Yes."),
        only="openai",
    ),
    Scenario(
        "a refusal among the parts", _message(content=[{"type": "refusal", "refusal": "No."}]), text("No."), only="openai"
    ),
    *(
        Scenario(
            f"thoughts in the markup of a chat template: {said[:12]}",
            one(lambda s, said=said: s.answer(text=said)),  # type: ignore[misc]  # a default binds the value
            text("Yes."),
            only="openai",
        )
        for said in ("[THINK]Hm[/THINK]Yes.", "<seed:think>Hm</seed:think>Yes.", "<|channel>thought\nHm<channel|>Yes.")
    ),
    Scenario(
        "a call that the server did not parse, in the text",
        one(lambda s: s.answer(text=f"{UNPARSED}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>")),
        text(UNPARSED),
        only="openai",
    ),
    Scenario(
        "thoughts before a call that the server did not parse",
        one(lambda s: s.answer(text=f"<|channel|>analysis<|message|>Hm<|end|><|start|>assistant{CHANNEL_CALL}")),
        text(CHANNEL_CALL),
        only="openai",
    ),
    Scenario("text with a quarter of a million blanks", one(lambda s: s.answer(text=LONG_BLANK)), text(LONG_BLANK)),
    Scenario("signed text", _parts({"text": "Yes.", "thoughtSignature": SIGNATURE}), text("Yes."), only="gemini"),
    Scenario(
        "a signature in the URL-safe alphabet",
        _parts({"text": "Yes.", "thoughtSignature": "-_-_"}),
        text("Yes."),
        only="gemini",
    ),
    Scenario(
        "code, its result and text",
        _parts(
            {"executableCode": {"language": "PYTHON", "code": "1+1", "id": "c"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "c"}},
            {"text": "Two."},
        ),
        text("Two."),
        only="gemini",
    ),
    Scenario(
        "an image beside text",
        _parts({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"text": "A dot."}),
        text("A dot."),
        only="gemini",
    ),
    Scenario(
        "a part of an unknown kind beside text", _parts({"hologram": {"x": 1}}, {"text": "Yes."}), text("Yes."), only="gemini"
    ),
    Scenario(
        "grounding, ratings and unknown fields",
        one(lambda s: s.answer(text="Yes.", novelty={"a": [1]}, groundingMetadata={"x": 1}, avgLogprobs=-0.1)),
        text("Yes."),
    ),
    Scenario(
        "several candidates: the first counts",
        one(lambda s: {s.many: s.answer(text="One.")[s.many] + s.answer(text="Two.")[s.many]}),
        text("One."),
    ),
    Scenario(
        "text with a finish reason for calls, and no calls",
        one(lambda s: s.answer(text="Yes.", finish="undeclared")),
        text("Yes."),
    ),
    Scenario("text without a finish reason", one(lambda s: s.answer(text="Yes.", finish=NOTHING)), text("Yes.")),
    Scenario(
        "a finish reason in the other case",
        one(lambda s: s.answer(text="Yes.", finish=s.words["stop"].swapcase())),
        text("Yes."),
    ),
    Scenario("text beside an error that is null", one(lambda s: s.answer(text="Yes.", error=None)), text("Yes.")),
    Scenario("text with a null finish reason", one(lambda s: s.answer(text="Yes.", finish=None)), text("Yes.")),
    Scenario("usage that is missing", one(lambda s: s.answer(text="Yes.")), text("Yes.")),
    Scenario("usage that does not add up", one(lambda s: s.answer(text="Yes.", usage=s.counted(1, 2, 30))), text("Yes.")),
    Scenario("usage with wrong types", one(lambda s: s.answer(text="Yes.", usage=s.counted("a", -1, [2]))), text("Yes.")),
    Scenario(
        "usage that is too large for a database column",
        one(lambda s: s.answer(text="Yes.", usage=s.counted(2**63, 1, 2**70))),
        text("Yes."),
    ),
    Scenario("usage that is a list", one(lambda s: s.answer(text="Yes.", usage=[1])), text("Yes.")),
    Scenario(
        "JSON under content type text/html", lambda s: [sends(_bytes(s, text="Yes."), content_type="text/html")], text("Yes.")
    ),
    Scenario(
        "UTF-8 that is declared as Latin-1",
        lambda s: [sends(_bytes(s, text="é"), content_type="application/json; charset=iso-8859-1")],
        text("é"),
    ),
    Scenario(
        "a compressed body", lambda s: [sends(gzip.compress(_bytes(s, text="Yes.")), content_encoding="gzip")], text("Yes.")
    ),
    _compressed("a compressed body under an old name", "x-gzip", 31),
    _compressed("a deflated body", "deflate", 15),
    _compressed("a deflated body without its header", "DEFLATE", -15),
    Scenario("a body in chunks", lambda s: [chunked(_bytes(s, text="Yes."), 3)], text("Yes.")),
    Scenario("blanks around the body", lambda s: [sends(b"\n  " + _bytes(s, text="Yes.") + b"\n\n")], text("Yes.")),
)

CALLS = (
    Scenario(
        "a call with an id", one(lambda s: s.answer(calls=[Call(id="a1")], finish="calls")), calls(("measure", NOTE, "a1"))
    ),
    Scenario("a call without an id", one(lambda s: s.answer(calls=[Call()], finish="calls")), calls(("measure", NOTE, None))),
    Scenario("a call whose id is empty", one(lambda s: s.answer(calls=[Call(id="")])), calls(("measure", NOTE, None))),
    Scenario("a call whose id is null", one(lambda s: s.answer(calls=[Call(id=None)])), calls(("measure", NOTE, None))),
    Scenario("a signed call", one(lambda s: s.answer(calls=[Call(signature=SIGNATURE)])), calls(("measure", NOTE, None))),
    Scenario(
        "a call that ends in plain stop", one(lambda s: s.answer(calls=[Call()], finish="stop")), calls(("measure", NOTE, None))
    ),
    Scenario(
        "several calls",
        one(lambda s: s.answer(calls=[Call(id="a"), Call(name="list", args={}, id="b"), Call(id="c")])),
        calls(("measure", NOTE, "a"), ("list", {}, "b"), ("measure", NOTE, "c")),
    ),
    Scenario(
        "the same call twice, without ids",
        one(lambda s: s.answer(calls=[Call(), Call()])),
        calls(("measure", NOTE, None), ("measure", NOTE, None)),
    ),
    Scenario(
        "text and a call together",
        one(lambda s: s.answer(text="On it.", calls=[Call()], finish="calls")),
        calls(("measure", NOTE, None), content="On it."),
    ),
    Scenario("a tool that was never declared", one(lambda s: s.answer(calls=[Call(name="hack")])), calls(("hack", NOTE, None))),
    Scenario(
        "a tool that was never declared, with the finish reason for it",
        one(lambda s: s.answer(calls=[Call(name="hack")], finish="undeclared")),
        calls(("hack", NOTE, None)),
    ),
    Scenario(
        "a name with the prefix default_api.",
        one(lambda s: s.answer(calls=[Call(name="default_api.measure")])),
        calls(("measure", NOTE, None)),
    ),
    Scenario(
        "a name with the prefix default_api:",
        one(lambda s: s.answer(calls=[Call(name="default_api:measure")])),
        calls(("measure", NOTE, None)),
    ),
    Scenario(
        "a name with the prefix functions.",
        one(lambda s: s.answer(calls=[Call(name="functions.measure")])),
        calls(("measure", NOTE, None)),
    ),
    Scenario(
        "a name with several prefixes",
        one(lambda s: s.answer(calls=[Call(name=" tools.default_api. functions.measure")])),
        calls(("measure", NOTE, None)),
    ),
    Scenario(
        "a name with the prefix tools.",
        one(lambda s: s.answer(calls=[Call(name="tools.measure")])),
        calls(("measure", NOTE, None)),
    ),
    Scenario(
        "arguments that are an object",
        _message(tool_calls=[{"id": "a", "function": {"name": "measure", "arguments": NOTE}}]),
        calls(("measure", NOTE, "a")),
        only="openai",
    ),
    Scenario(
        "the older form function_call, beside text",
        _message(content="On it.", function_call={"name": "measure", "arguments": '{"note": "x"}'}),
        calls(("measure", NOTE, None), content="On it."),
        only="openai",
    ),
    Scenario("arguments that are missing", _args(NOTHING), calls(("measure", {}, None))),
    Scenario("arguments that are null", _args(None), calls(("measure", {}, None))),
    Scenario("arguments that are empty", _args({}), calls(("measure", {}, None))),
    Scenario("3.0 for an integer", _args({"count": 3.0}), calls(("measure", {"count": 3}, None))),
    Scenario("3.5 for an integer", _args({"count": 3.5}), calls(("measure", {"count": 3.5}, None))),
    Scenario("1e20 for an integer", _args({"count": 1e20}), calls(("measure", {"count": 10**20}, None))),
    Scenario("3.0 for a number", _args({"size": 3.0}), calls(("measure", {"size": 3.0}, None))),
    Scenario("3.0 for an integer or null", _args({"maybe": 3.0}), calls(("measure", {"maybe": 3}, None))),
    Scenario(
        "3.0 for an integer behind a reference",
        _args({"rows": [{"n": 3.0}, {"n": None}, 3.0]}),
        calls(("measure", {"rows": [{"n": 3}, {"n": None}, 3.0]}, None)),
    ),
    Scenario("3.0 where the schema says nothing", _args({"else": 3.0}), calls(("measure", {"else": 3.0}, None))),
    Scenario("arguments of the wrong type", _args({"count": "three"}), calls(("measure", {"count": "three"}, None))),
)

TRUNCATED = (
    Scenario(
        "the limit of tokens, in the middle of a text",
        one(lambda s: s.answer(text="Once upon", finish="truncated")),
        truncated("Once upon"),
    ),
    Scenario(
        "the limit of tokens, before any text", one(lambda s: s.answer(finish="truncated")), truncated(None), unusable=True
    ),
    Scenario(
        "the limit of tokens, without content", one(lambda s: s.wrap(NOTHING, "truncated")), truncated(None), unusable=True
    ),
    Scenario(
        "the limit of tokens, after a call",
        one(lambda s: s.answer(calls=[Call()], finish="truncated")),
        truncated(None),
        unusable=True,
    ),
    Scenario(
        "the limit of tokens, in the middle of a call",
        one(lambda s: s.answer(calls=[Call(args="{")], finish="truncated")),
        truncated(None),
        unusable=True,
    ),
    Scenario(
        "the limit of tokens, in the middle of a reply form",
        one(lambda s: s.answer(calls=[Call("answer", {"text": "Once upon"})], finish="truncated")),
        truncated("Once upon"),
    ),
    Scenario(
        "the limit of tokens, in the middle of the JSON of a reply form",
        _written_form('{"text": "Once upon \\ud83d'),
        truncated("Once upon "),
        only="openai",
    ),
    Scenario(
        "the limit of tokens, before the text of a reply form",
        _written_form('{"reason": "unclear_in'),
        truncated(None),
        only="openai",
        unusable=True,
    ),
    Scenario(
        "the limit of tokens, after a call and in the middle of a reply form",
        one(lambda s: s.answer(calls=[Call(), Call("default_api.decline", {"text": "I can't do"})], finish="truncated")),
        truncated("I can't do"),
    ),
    Scenario(
        "the limit of tokens, in the middle of two reply forms beside text",
        one(
            lambda s: s.answer(
                text="Beside.",
                calls=[
                    Call("answer", {"text": "Done."}),
                    Call("answer", {"text": "Done."}),
                    Call("ask_user", {"question": "Mo"}),
                ],
                finish="truncated",
            )
        ),
        truncated("Done.\n\nMo"),
    ),
)

FILTERS = (
    Scenario("a content filter", one(lambda s: s.wrap(NOTHING, "blocked")), BLOCKED),
    Scenario("a content filter after half a text", one(lambda s: s.answer(text="Once", finish="blocked")), BLOCKED),
    *(
        _filter(name)
        for name in ("RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE", "MODEL_ARMOR", "IMAGE_SAFETY")
    ),
    Scenario(
        "a prompt that was blocked", lambda _: [says({"promptFeedback": {"blockReason": "SAFETY"}})], BLOCKED, only="gemini"
    ),
    Scenario(
        "a content filter with its name",
        one(lambda s: s.answer(finish="content_filter: PROHIBITED_CONTENT")),
        BLOCKED,
        only="openai",
    ),
)
