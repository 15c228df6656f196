"""Finds where the arguments of a call come from. Pure functions: the answer is recorded, and a replay does not match again.

Only a false match with the user's words lets a call through, so these are matched strictly: whole words, letter for letter.
Results are matched loosely, without regard to letters that look alike, case, hidden characters and punctuation at the ends of
words. What is found nowhere is the model's own.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

from graph_agent.models.decision import DecisionContext, Message
from graph_agent.models.llm import FunctionCall
from graph_agent.models.origin import Origin
from graph_agent.models.sources import BatchSources, CallSources, EarlierCalls, FoundSource, ReadCall, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.argument_parts import ArgumentPart, Location, places_of
from graph_agent.policy.cedar.types import CedarType, Field, Kind
from graph_agent.policy.codes import Code, code_of, codes_in
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.counted import Counted, Day, counted_in, counts_of, day_of, days_in, may_count
from graph_agent.policy.denials import Span, denied_spans
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.schema.keywords import walk
from graph_agent.policy.schema.upgrade import upgraded
from graph_agent.policy.sourced_values import SourcedValue, sourced_values, values_of
from graph_agent.reply.text import HIDDEN

MIN_TEXT: Final = 4
"""A shorter text is never the user's once something foreign was read: it stands in many messages by chance."""
_MAX_VALUES = 1_000
"""The number of values of one argument that are looked up; an argument with more is the model's."""

_WINDOW, _STEP = 8, 3
"""So many words in a row are looked up within a longer text, from every third word on: ten that were copied are found."""
_MAX_WORDS = 1_000

_HIDDEN = re.compile(f"[{HIDDEN}]")
_BETWEEN = r"\s\"'`<>()\[\]{},;|“”‘’„«»"
_EDGE = r".:!?*_\-/#~…"
_TO_SPACE = re.compile(rf"[{_BETWEEN}]+[{_EDGE}{_BETWEEN}]*|[{_EDGE}]+(?=[{_BETWEEN}]|$)|^[{_EDGE}]+")
_ADDRESS = re.compile(r"@|://|^www\.|^[\w-]+(\.[\w-]+)*\.[a-z]{2,}(?:[/:?]|$)|^[a-z]{2}\d{8,}|^(?=.*\d)[\w-]{12,}$")
"""A word that names a place or an account, wherever it stands."""

_ISO = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2})(?:[ t](?P<time>\d{2}:\d{2})(?::00)?)?")
_SPACING = re.compile(r"\s+")
_AMOUNT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
"""A text that is a number."""
_SPACES = re.compile("[ \t\r\n]+")
"""Between words. Another space is a letter of the value: it looks alike."""
_NUMBER = re.compile(
    r"(?<![\w.,:/#-])(?P<sign>[-+]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?P<part>\.\d+|,\d{1,2})?(?![\w:/#-]|[.,]\d)"
)
_BORDER: Final = " \0 "
_BEFORE = frozenset('"`<([{|,;“„«‘')
_AFTER = frozenset('"`>)]}|,;”“»')
_ENDS = frozenset(".:!?*_~…。，、！？")
_APOSTROPHES = frozenset("'’")


class Given(NamedTuple):
    """True for the places where a value stands: those that give it, and those that forbid or deny it."""

    given: bool
    denied: bool


class Words:
    """A text of the user, in which only exactly the same words are found."""

    def __init__(self, text: str) -> None:
        # Of spaces only those that end a line or a paragraph say something: they begin a clause.
        self._lines = _SPACING.sub(
            lambda one: "\f" if one[0].count("\n") > 1 else "\n" if "\n" in one[0] else " ", text.lower()
        )
        self._lines = self._lines.strip()
        self._text = self._lines.replace("\n", " ").replace("\f", " ")

    def has(self, value: str) -> bool:
        """True if `value`, in lower case with single spaces, stands in the text between the borders of words."""
        return next(self._places(value), None) is not None

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
        """Yield what matches a pattern in the text in lower case, each with True if the text forbids or denies it there."""
        for one in pattern.finditer(self._text):
            yield one[0], self._given([one.span()]).denied

    def given(self, value: str, counts: str | None, name: str) -> Given:
        """Return where a text in lower case stands as a whole, also in another usual form, for the argument `name`."""
        places = list(self._places(value))
        if value.isascii() and value.isdigit():
            places = [one for one in places if self._may_name(one, counts, name)]
        elif value[:1] == "#" and len(value) > MIN_TEXT and any(map(str.isdigit, value)):
            places += self._places(value[1:])
        # A group of a code is no value.
        places = [one for one in places if not any(_is_part(one, (code.start, code.end)) for code in self._codes)]
        code = code_of(value)
        return self._given([*places, *((one.start, one.end) for one in self._codes if one.plain == code)])

    def given_number(self, value: Decimal, counts: str | None, name: str, *, is_object: bool) -> Given:
        """Return where a number stands that counts what the argument `name` does."""
        found = (one for one in self._counted.numbers if one.value == value)
        places = [(one.start, one.end) for one in found if may_count(one, counts, is_object=is_object, name=name)]
        return self._given([one for one in places if not any(_is_part(one, (code.start, code.end)) for code in self._codes)])

    def given_day(self, day: Day) -> Given:
        """Return where a day stands, with its year or without one."""
        days = (day, day._replace(year=None))
        return self._given([(start, start) for one, start in self._counted.days if one in days])

    def _places(self, value: str) -> Iterator[Span]:
        at = self._text.find(value)
        while at >= 0:
            if _begins(self._text, at) and _ends(self._text, at + len(value)):
                yield at, at + len(value)
            at = self._text.find(value, at + 1)

    def _may_name(self, place: Span, counts: str | None, name: str) -> bool:
        """True if the digits at a place may be the value of an argument: those of days and of other things may not."""
        at = [one for one in self._counted.numbers if one.start <= place[0] < one.end]
        is_object = counts is None
        return all(may_count(one, counts, is_object=is_object, name=name) for one in at) and not any(
            start <= place[0] < end for start, end in self._counted.taken
        )

    def _given(self, places: Sequence[Span]) -> Given:
        denied = sum(any(start <= at < end for start, end in self._denied) for at, _ in places)
        return Given(len(places) > denied, denied > 0)

    @cached_property
    def _denied(self) -> Sequence[Span]:
        return denied_spans(self._lines)

    @cached_property
    def _counted(self) -> Counted:
        return counted_in(self._text)

    @cached_property
    def _codes(self) -> Sequence[Code]:
        days = self._counted.taken
        return [one for one in codes_in(self._text) if not any(start < one.end and one.start < end for start, end in days)]


def _break(spaces: re.Match[str]) -> str:
    return ("\n" if "\n" in spaces[0] else " ") if spaces[0].count("\n") < 2 else "\f"


class PreparedText:
    """A text of a result, prepared once: a look-up is then one search."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._parts = list(parts)

    @cached_property
    def _line(self) -> str:
        # A phrase does not go over the border between two parts.
        return f" {_BORDER.join(map(_plain, self._parts))} "

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        # Those of dates too, which takes half of the time: a result is searched loosely.
        return frozenset().union(*(map(_number, _NUMBER.finditer(part)) for part in self._parts))

    @cached_property
    def _days(self) -> frozenset[Day]:
        return frozenset(day for part in self._parts for day in days_in(part.lower()))

    def has(self, value: Any) -> bool:
        """True if a number stands in the text, or a phrase between the borders of words."""
        if not isinstance(value, str):
            return _decimal(value) in self._numbers
        phrase = _plain(value)
        if phrase and f" {phrase} " in self._line:
            return True
        day = _day(value.strip().lower())
        # Only a whole day: a moment of a day that a text names is not copied.
        return day is not None and day[1] is None and not {day[0], day[0]._replace(year=None)}.isdisjoint(self._days)


class _Read:
    """A result that was read in the conversation, or a text of the model itself."""

    def __init__(self, tool: str | None, texts: Iterable[str], sent: Mapping[str, Any], *, trusted: bool) -> None:
        self.tool = tool
        self.trusted = trusted
        self.text = PreparedText(texts)
        self.sent = PreparedText(_texts(sent))


class SourceFinder:
    """Finds the sources of the calls of one turn. A result is prepared when it is first looked into, once."""

    def __init__(self, context: DecisionContext, policy: CompiledPolicy, earlier: EarlierCalls) -> None:
        """`earlier` are the calls of the turns before, in this conversation."""
        said = [context.message, *(one.content for one in context.message_history if one.role == "user" and one.origin is None)]
        # Also as most keyboards write it: a user may write digits in full width.
        spellings = [form for text in said for form in dict.fromkeys((text, unicodedata.normalize("NFKC", text)))]
        # The message of a decision without a model is no text of the user: it names the calls.
        self._user = [] if context.called else [Words(text) for text in spellings]
        self._context = context
        self._policy = policy
        self._types = {action.name: action.arguments for action in policy.actions}
        said_by_others = [_message_of_others(one) for one in context.message_history if one.origin is Origin.FOREIGN]
        self._earlier = [self._read(call) for call in (*earlier.results, *said_by_others)]
        self._after = next((name for name in earlier.tools if not self._is_trusted(name)), None)
        self._after = self._after or _first_untrusted(self._earlier)
        if self._after is not None:
            answers = [one.content for one in context.message_history if one.role == "assistant" or one.origin is not None]
            self._earlier += [_Read(None, [text], {}, trusted=False) for text in answers]
        self._of_turn: list[_Read] = []
        self._declared: dict[str, frozenset[str]] = {}

    def sources(self, batch: Sequence[FunctionCall], made: Sequence[ReadCall]) -> BatchSources:
        """Return the sources of a batch. `made` are the calls that were sent in this turn before, in their order.

        What a call of the batch reads counts for the calls after it: they run when it has been read.
        """
        self._of_turn += [self._read(call) for call in made[len(self._of_turn) :]]
        after, found = self._after or _first_untrusted(self._of_turn), []
        for call in batch:
            found.append(self._sources(call, after))
            if after is None and call.name in self._policy.rules and not self._is_trusted(call.name):
                after = call.name
        return BatchSources(calls=found)

    def _read(self, call: ReadCall) -> _Read:
        trusted = self._is_trusted(call.tool_name)
        return _Read(call.tool_name, list(texts_of_result(call.result)), call.arguments, trusted=trusted)

    def _is_trusted(self, tool_name: str) -> bool:
        rule = self._policy.rules.get(tool_name)
        return rule is not None and rule.grant.trusted_results

    def _sources(self, call: FunctionCall, after: str | None) -> CallSources:
        types, rule = self._types.get(call.name, CedarType(Kind.RECORD)), self._policy.rules.get(call.name)
        # The runtime sets the id of the user, or leaves it out.
        own = {"" if rule is None else rule.grant.bound_argument, *([] if rule and rule.takes_user_id else ["user_id"])}
        arguments = [name for name in call.arguments if name not in own] if isinstance(call.arguments, dict) else []
        keys, found, parts = self._keys(call.name), dict[str, list[FoundSource]](), dict[str, list[FoundSource]]()
        for name in arguments:
            type_ = None if (field := types.field(name)) is None else field.type
            looked_up = list(islice(sourced_values(name, call.arguments[name], type_, keys), _MAX_VALUES + 1))
            found[name] = self._found(looked_up, after)
            for part in self._parts_of(call.name) if found[name] else ():
                if part.argument == name:
                    within = None if len(looked_up) > _MAX_VALUES else self._values_in(part, call.arguments, types, keys)
                    # Of a part that cannot be distinguished from the rest, the whole counts.
                    parts[part.path] = found[name] if within is None else self._found(within, after)
        return CallSources(arguments={name: given for name, given in found.items() if given}, parts=parts, after=after)

    def _parts_of(self, tool_name: str) -> Sequence[ArgumentPart]:
        conditions = self._policy.conditions
        action = None if conditions is None else conditions.gathers.actions.get(tool_name)
        return () if action is None else action.source_parts

    def _values_in(
        self, part: ArgumentPart, arguments: dict[str, Any], types: CedarType, keys: frozenset[str]
    ) -> list[SourcedValue] | None:
        """Return the values in a part of an argument that have a source; None if its path does not fit the arguments."""
        declared = self._policy.constitution.facts
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            places = places_of(declared, declared[part.name], given)
        except UnreadableError:
            return None
        found: list[SourcedValue] = []
        before = 0
        for place, value in places:
            key, type_ = _key_at(place), _type_at(types, place)
            found += [one._replace(item=before + one.item) for one in sourced_values(key, value, type_, keys)]
            before += len(list(values_of(key, value, type_)))
        return found

    def _found(self, values: Iterable[SourcedValue], after: str | None) -> list[FoundSource]:
        found: dict[tuple[Source, str | None], int] = {}
        for number, one in enumerate(values):
            if number == _MAX_VALUES:
                found.setdefault((Source.MODEL, None), one.item)
                break
            found.setdefault(self._source(one, tainted=after is not None), one.item)
        return [FoundSource(source=source, tool=tool, item=item) for (source, tool), item in found.items()]

    def _keys(self, tool_name: str) -> frozenset[str]:
        """Return the keys that the schema of a tool declares, at any depth: they were not chosen for this call."""
        if tool_name not in self._declared:
            rule = self._policy.rules.get(tool_name)
            parts = () if rule is None else walk(upgraded(rule.declaration.parameters))
            self._declared[tool_name] = frozenset(key for _, part in parts for key in part.get("properties", ()))
        return self._declared[tool_name]

    def _source(self, of: SourcedValue, *, tainted: bool) -> tuple[Source, str | None]:
        value = of.value
        if value is None:
            return Source.MODEL, None
        # A client that sends no messages speaks for its user, until something foreign was read: then it is not known.
        given = self._context.typed or (bool(self._context.called) and not tainted)
        if given or (self._is_said(of.key, value, of.type) and not (tainted and _is_short(of.key, value, of.type))):
            return Source.USER, None
        read = [*self._earlier, *self._of_turn]
        for position, one in enumerate(read):
            # A value that the model has sent before is no truer because a tool repeats it, or has stored it.
            if one.trusted and one.text.has(value) and not any(earlier.sent.has(value) for earlier in read[: position + 1]):
                return Source.TRUSTED, one.tool
        parts = list(self._parts(value))
        for one in read:
            if not one.trusted and (one.text.has(value) or any(map(one.text.has, parts))):
                return Source.UNTRUSTED, one.tool
        return Source.MODEL, None

    def _is_said(self, key: str, value: Any, type_: CedarType | None) -> bool:
        """True if the user has given a value. One that names something is not theirs if they have forbidden it anywhere."""
        counts = counts_of(key)
        if not isinstance(value, str) or (counts is not None and _AMOUNT.fullmatch(value)):
            is_object = counts is None and _is_whole(value, type_)
            found = [words.given_number(_decimal(value), counts, key, is_object=is_object) for words in self._user]
            return any(one.given for one in found) and not (is_object and any(one.denied for one in found))
        text = _exact(value)
        if (day := _day(text)) is not None and any(words.given_day(day[0]).given for words in self._user):
            return day[1] is None or any(words.has(day[1]) for words in self._user)
        found = [words.given(text, counts, key) for words in self._user] if text else []
        return any(one.given for one in found) and not any(one.denied for one in found)

    def _parts(self, value: Any) -> Iterator[str]:
        """Yield what counts by itself within a longer text, unless the user has said it: links, accounts, sentences."""
        words = _plain(value).split(" ") if isinstance(value, str) else []
        starts = range(0, min(len(words), _MAX_WORDS) - _WINDOW + 1, _STEP)
        parts = [*filter(_ADDRESS.search, words), *(" ".join(words[at : at + _WINDOW]) for at in starts)]
        if len(words) > 1:
            yield from (part for part in parts if not any(one.has(part) for one in self._user))


def _key_at(place: Location) -> str:
    """Return the name of the field that a value at a place in the arguments belongs to."""
    return next(step for step in reversed(place) if isinstance(step, str))


def _type_at(types: CedarType, place: Location) -> CedarType | None:
    """Return the type of the value at a place in the arguments; None if conditions do not see it."""
    type_: CedarType | None = types
    for step in place:
        if type_ is None:
            return None
        within = type_.item if isinstance(step, int) else type_.field(step)
        type_ = within.type if isinstance(within, Field) else within
    return type_


def changed_definitions(policy: CompiledPolicy, earlier: Iterable[str]) -> Iterator[ReadCall]:
    """Yield the definitions of tools that have changed since earlier turns, whose `tools_json` is given as text.

    A definition that the operator has reviewed counts too: a record does not say who changed it.
    """
    known: dict[str, list[Any]] = {}
    for text in earlier:
        for one in json.loads(text):
            if "declaration" in one:
                known.setdefault(one["declaration"]["name"], []).append(one)
    for name, rule in policy.rules.items():
        now = rule.definition_json()
        if any(one != now for one in known.get(name, ())):
            yield ReadCall(f"changed definition of {name}", {}, ToolResult(success=True, data=now))


def _message_of_others(said: Message) -> ReadCall:
    return ReadCall("message of another agent", {}, ToolResult(success=True, data={"text": said.content}))


def _first_untrusted(read: Iterable[_Read]) -> str | None:
    return next((one.tool for one in read if not one.trusted), None)


def _is_short(key: str, value: Any, type_: CedarType | None) -> bool:
    """True for a text, or a number that names an object, that stands in many messages by chance."""
    if isinstance(value, str):
        return len(_plain(value)) < MIN_TEXT
    return _is_whole(value, type_) and len(str(value)) < MIN_TEXT and counts_of(key) is None


def _is_whole(value: Any, type_: CedarType | None) -> bool:
    return isinstance(value, int) and (type_ is None or type_.kind is not Kind.DECIMAL)


def _is_part(place: Span, whole: Span) -> bool:
    return place != whole and whole[0] <= place[0] and place[1] <= whole[1]


def _exact(value: str) -> str:
    """Return a value as it must stand in the user's words, but for upper case; an empty text if no word can be it."""
    # The lower case of some letters, such as the sign of Kelvin, is that of another one, which looks alike.
    if any(letter != letter.lower() and letter != letter.lower().upper() for letter in value):
        return ""
    return _SPACES.sub(" ", value.lower())


def texts_of_result(result: ToolResult) -> Iterator[str]:
    """Yield everything in a result that its server, or one who writes to it, has chosen."""
    yield from _texts(result.data)
    yield from filter(None, [result.error, *(one.note for one in result.content)])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield str(name)
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else str(value)


def _plain(text: str) -> str:
    """Return the words of a text in one spelling, without punctuation around them."""
    folded = (text if text.isascii() else _HIDDEN.sub("", unicodedata.normalize("NFKC", text))).casefold()
    return " ".join(_TO_SPACE.sub(" ", folded).split())


def _decimal(value: Any) -> Decimal:
    return Decimal(str(value))


def _number(found: re.Match[str]) -> Decimal:
    whole, part = found["whole"].replace(",", ""), (found["part"] or "").replace(",", ".")
    return Decimal(f"{found['sign']}{whole}{part}")


def _day(text: str) -> tuple[Day, str | None] | None:
    """Return the day and the time of a text that is a day as a whole."""
    found = _ISO.fullmatch(text)
    if found is not None:
        year, month, day = map(int, found["day"].split("-"))
        return Day(month, day, year), found["time"]
    return None if (written := day_of(text)) is None else (written, None)


def _begins(text: str, at: int) -> bool:
    """True if a word begins at this position."""
    # Signs around a word, as in "**Anna**" and "#general"; before another sign they are a part of it.
    signs = len(text[:at]) - len(text[:at].rstrip("*_#")) if text[at].isalnum() else 0
    at -= signs
    before, earlier = text[at - 1 : at], text[at - 2 : at - 1]
    if before in _APOSTROPHES and before:
        return not earlier.isalnum()
    if before == "," and earlier.isdigit():
        return not text[at : at + 1].isdigit()
    return not before or before == " " or before in _BEFORE or _meets_script(before, text[at : at + 1])


def _ends(text: str, at: int) -> bool:
    """True if a word ends before this position."""
    after, later = text[at : at + 1], text[at + 1 : at + 2]
    if after and after in _APOSTROPHES:
        return not later.isalnum() or (later == "s" and not text[at + 2 : at + 3].isalnum())
    if after == "," and later.isdigit():
        return not text[at - 1].isdigit()
    if _meets_script(after, text[at - 1]):
        return True
    while text[at : at + 1] and text[at] in _ENDS:
        at += 1
    after = text[at : at + 1]
    return not after or after == " " or after in _AFTER or after in _APOSTROPHES


def _meets_script(other: str, own: str) -> bool:
    """True between a Latin letter or digit and a letter of a script without spaces or with particles, as in Korean."""
    return bool(other) and own.isascii() and own.isalnum() and unicodedata.category(other) == "Lo"
