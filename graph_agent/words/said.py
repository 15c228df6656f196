"""The sentence of a call and its details: the only module that says a call to people.

The sentence is the operator's (`policy/sentence.py`), or else the title of the tool. What it does not say of the arguments is
a detail, so that nothing of a call is hidden, and a name that was read never replaces an id. Values are quoted or of a closed
form, so that none can be taken for words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from graph_agent.models.canonical import without_nulls
from graph_agent.models.decision import PendingAction, PendingCall
from graph_agent.models.facts import ShownFact
from graph_agent.models.said import Said, SaidPart, SaidRow
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import RestoredObject, UndoneCall
from graph_agent.policy.call_in_hand import CallInHand
from graph_agent.policy.sentence import ARGUMENTS, PREVIEW, Place
from graph_agent.policy.sentence_reads import NOTHING_READ, ReadValues
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.text import one_line
from graph_agent.words.values import MAX_SHOWN, brief, by_name, label, labels, lowered, part_of, spoken

MAX_IN_SENTENCE: Final = 200
"""The longest text in a sentence, in characters; a longer one is also a detail."""
UNDO: Final = "Undo: "
RECEIPT: Final = "receipt"
_MAX_BRIEF: Final = 1_000


@dataclass(frozen=True, slots=True)
class Known:
    """The knowledge about a call besides its arguments."""

    preview: ToolResult | None = None
    facts: tuple[ShownFact, ...] = ()
    """The facts that its conditions read. Beside a preview, which describes the object, they are not said."""
    read: ReadValues = NOTHING_READ
    """The values that were read for its sentence."""
    undoes: UndoneCall | None = None
    time_zone: str = ""
    """The name of the user's time zone. It is none of the `values`: a change of it is no change of the call."""

    @classmethod
    def of(cls, hand: CallInHand) -> Known:
        evidence = hand.evidence
        return cls(evidence.seen, evidence.facts_shown, evidence.read_for_sentence, hand.undoes, hand.setting.time_zone)

    def after(self, rule: ToolRule, result: ToolResult) -> Known:
        """Return what is known after a call: its server may describe what it has changed, unless that was read before."""
        described = described_by(rule, result).get(PREVIEW)
        if self.text_of_object is not None or described is None:
            return self
        return replace(self, preview=ToolResult(success=True, data={"description": described}))

    @property
    def text_of_object(self) -> str | None:
        """The description of what the call acts on, by its server."""
        text = self.preview.data.get("description") if self.preview and isinstance(self.preview.data, dict) else None
        return text if isinstance(text, str) else None

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """Everything that was read about the call, by where it is from and by its name, as plain JSON."""
        found = {
            "preview": {"": self.text_of_object},
            "objects": {fact.name: [*fact.about] for fact in self.facts if fact.about},
            "missing": {fact.name: fact.missing for fact in self.facts if fact.missing},
            "facts": {path: value for fact in self.facts if not fact.missing for path, value in fact.by_path.items()},
            "said": {**self.read.said},
            "replaced": {**self.read.replaced},
        }
        return {kind: known for kind, values in found.items() if (known := without_nulls(values))}


NOTHING_KNOWN: Final = Known()


def say(rule: ToolRule, arguments: Mapping[str, Any], known: Known = NOTHING_KNOWN) -> Said:
    """Return the sentence and the details of a call."""
    saying = _Saying(rule, arguments, known)
    if known.undoes is not None:
        return _undo(saying, known.undoes)
    parts = tuple(saying.sentence())
    rows = (*saying.arguments(), *saying.unsaid(), *saying.facts())
    return Said(parts=parts, rows=rows, time_zone=known.time_zone)


def say_call(hand: CallInHand, result: ToolResult | None = None) -> Said:
    """Return the sentence and the details of a call in hand, with what was read for its gates, and after it by its `result`."""
    known = Known.of(hand)
    return say(hand.rule, hand.arguments, known if result is None else known.after(hand.rule, result))


def said_in_turn(call: TurnCall, rule: ToolRule) -> Said:
    """Return a call of a turn as it was said when it was taken; by its arguments if it was not."""
    return call.said or say(rule, call.arguments)


def described_by(rule: ToolRule, result: ToolResult) -> Mapping[str, str]:
    """Return what a server with a ledger says for people about a change that it has made: its `preview` and `receipt`."""
    if not (rule.traits.ledger and rule.mutating and result.success and isinstance(result.data, dict)):
        return MappingProxyType({})
    return {name: text for name in (PREVIEW, RECEIPT) if isinstance(text := result.data.get(name), str)}


def in_line(said: Said, limit: int = 80) -> str:
    """Return the sentence and its details on one line; each value is cut to `limit` characters on its own."""
    head = "".join(brief(part.text, part.shown, part.length, limit) if part.value else part.text for part in said.parts)
    rows = ", ".join(
        f"{lowered(row.label)} {f'{row.was} → ' if row.was else ''}{brief(row.text, row.shown, row.length, limit)}"
        for row in said.rows
        if not row.quiet and not row.described
    )
    return f"{head} ({rows})" if rows else head


@dataclass(slots=True)
class _Saying:
    """The parts and rows of one call."""

    rule: ToolRule
    given: Mapping[str, Any]
    known: Known
    said: set[str] = field(default_factory=set)
    """The arguments that the sentence says in full."""
    described: set[str] = field(default_factory=set)
    """The arguments for which the sentence says the description of the object by its server."""
    cut: dict[str, Any] = field(default_factory=dict)
    """The values of other places that the sentence cuts, by place."""

    @property
    def schemas(self) -> Mapping[str, Any]:
        return by_name(self.rule.declaration.parameters)

    def sentence(self) -> Iterator[SaidPart]:
        sentence = self.rule.grant.sentence
        if sentence is None or not sentence.has_places:
            yield from self._title()
            return
        before = ""
        for piece in sentence.pieces:
            group = piece if isinstance(piece, tuple) else (piece,)
            if isinstance(piece, tuple) and not all(self._is_known(one) for one in piece if isinstance(one, Place)):
                continue
            for one in group:
                part = SaidPart(text=one) if isinstance(one, str) else self._part(one, before)
                before += part.text
                yield part

    def arguments(self) -> Iterator[SaidRow]:
        """Yield a row for each argument that the sentence does not say."""
        names = labels([*self.given])
        for name, value in self.given.items():
            if name in self.said:
                continue
            was = self.known.read.replaced.get(name)
            old = "" if was is None else spoken(was, self.schemas.get(name), zone=self.known.time_zone).text
            row = self._row(names[name], value, self.schemas.get(name), was=old)
            stood_for = name in self.described or len(self.given) == 1
            described = stood_for and self.known.text_of_object is not None and not row.length
            yield row.replace(length=max(row.length, len(name) if len(name) > MAX_SHOWN else 0), described=described)

    def unsaid(self) -> Iterator[SaidRow]:
        """Yield a row for each other value that the sentence cuts."""
        for place, value in self.cut.items():
            yield self._row("Now" if place == PREVIEW else label_of(place), value, quiet=True)

    def facts(self) -> Iterator[SaidRow]:
        """Yield a row for each fact that conditions read, unless the sentence says it."""
        known = self.known.facts if self.known.text_of_object is None else ()
        for path, value in ((path, value) for fact in known for path, value in fact.by_path.items()):
            if path in self.known.read.said and path not in self.cut:
                continue
            name = f"{label_of(path)} now"
            yield SaidRow(label=name, text="not found", quiet=True) if value is None else self._row(name, value, quiet=True)

    def _title(self) -> Iterator[SaidPart]:
        title, text = one_line(self.rule.title), self.known.text_of_object
        if text is None:
            yield SaidPart(text=title)
            return
        yield SaidPart(text=f"{title}: ")
        yield self._value(PREVIEW, text, None, None)

    def _is_known(self, place: Place) -> bool:
        return self._value_at(place) is not None or bool(place.other and self._argument(place.other) is not None)

    def _value_at(self, place: Place) -> Any:
        if place.root == PREVIEW:
            return self.known.text_of_object
        if place.is_fact:
            return self.known.read.said.get(place.text)
        name, _, rest = place.path.partition(".")
        value = self._argument(name)
        return part_of(value, rest) if rest else value

    def _argument(self, name: str) -> Any:
        declared = self.schemas.get(name)
        if name not in self.given and isinstance(declared, dict):
            return declared.get("default")
        return self.given.get(name)

    def _part(self, place: Place, before: str) -> SaidPart:
        """Say a place; an argument in place of another value has its name, unless it ends the words `before`."""
        value = self._value_at(place)
        if value is None:
            # By the check of the constitution the argument is there.
            other = self._value(place.other, self._argument(place.other), self.schemas.get(place.other), None)
            name = lowered(label(place.other))
            if f" {before}".rstrip().endswith(f" {name}"):
                return other
            return other.replace(text=f"{name} {other.text}", shown="")
        if place.root == PREVIEW:
            self.described.add(place.other)
        schema = self.schemas.get(place.path) if place.root == ARGUMENTS else None
        return self._value(place.text, value, schema, place)

    def _value(self, name: str, value: Any, schema: Any, place: Place | None) -> SaidPart:
        found = spoken(value, schema, None if place is None else place.money, MAX_IN_SENTENCE, self.known.time_zone)
        if not found.length and name in self.given:
            self.said.add(name)
        elif found.length and name not in self.given:
            self.cut[name] = value
        return SaidPart(text=found.text, value=name, shown=found.shown, length=found.length)

    def _row(self, name: str, value: Any, schema: Any = None, *, was: str = "", quiet: bool = False) -> SaidRow:
        found = spoken(value, schema, zone=self.known.time_zone)
        return SaidRow(
            label=name,
            text=found.text,
            shown=found.shown,
            was="" if was == found.text else was,
            quiet=quiet,
            length=found.length,
        )


def said_of(call: PendingCall) -> Said:
    """Return the sentence and the details of a call that waits; its description if it has none, as a plan."""
    return call.said or Said(parts=(SaidPart(text=call.description),))


def brief_of(call: PendingCall | PendingAction) -> str:
    """Return a call that waits on one line."""
    of_several = isinstance(call, PendingAction) and bool(call.calls)
    return one_line(call.description, _MAX_BRIEF) if of_several or call.said is None else in_line(call.said)


def label_of(path: str) -> str:
    """Return the label of a fact: `loan.status` is Loan status."""
    return label(path.replace(".", "_"))


def _undo(saying: _Saying, undoes: UndoneCall) -> Said:
    """Say an undo by what it undoes, as that was said then, and by what comes back."""
    change = tuple(saying.sentence()) if undoes.said is None else undoes.said.parts
    # The values in that sentence are those of the change; the arguments of the undo are details.
    saying.said = set()
    restored, back, zone = undoes.restored, [], saying.known.time_zone
    replaced = _replaced_by(restored, saying.given)
    saying.known = replace(saying.known, read=ReadValues(replaced=replaced))
    for path, value in () if restored is None else restored.before.items():
        if restored is not None and path in (restored.filled.get(name) for name in replaced):
            continue
        left = spoken(restored.left[path], zone=zone).text if restored is not None and path in restored.left else ""
        found = spoken(value, zone=zone)
        back.append(SaidRow(label=label_of(path), text=found.text, shown=found.shown, was=left, length=found.length))
    shown = {(row.label, row.text) for row in back} | {(label(part.value), part.text) for part in change if part.value}
    own = [row for row in saying.arguments() if (row.label, row.text) not in shown]
    labelled = {row.label for row in (*back, *own)}
    details = () if undoes.said is None else undoes.said.rows
    of_change = [row.replace(quiet=True, was="") for row in details if row.label not in labelled and not row.quiet]
    return Said(
        parts=(SaidPart(text=UNDO), *change),
        rows=(*back, *own, *of_change, *saying.unsaid(), *saying.facts()),
        undoes="".join(part.text for part in change),
        time_zone=zone,
    )


def _replaced_by(restored: RestoredObject | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the arguments of an undo replace, as the change had left it."""
    places = {} if restored is None else restored.filled
    return {
        name: restored.left[path]
        for name, path in places.items()
        if restored is not None and name in given and path in restored.left
    }
