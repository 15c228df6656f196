"""The builders: each turns a clause that fits a cue of `cues.txt` into a request.

A builder may return None; then the next cue is tried.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from graph_agent.rules_model import words as vocabulary
from graph_agent.rules_model.patterns import compiled, part, tables
from graph_agent.rules_model.references import (
    is_foreign,
    is_time,
    may_name_task,
    names_task,
    read_reference,
    starts_with_action,
)
from graph_agent.rules_model.reports import is_story, read_report, read_state
from graph_agent.rules_model.requests import (
    UNCLEAR,
    Add,
    Complete,
    Delete,
    Offer,
    Reference,
    Request,
    Say,
    Show,
    Status,
    Update,
)
from graph_agent.rules_model.wording import EMPTY, Clause, clause_of
from graph_agent.rules_model.words import is_past

Groups = defaultdict[str, Clause]
Builder = Callable[[Clause, Groups], Request | None]

_ITEM: Final = re.compile(r"\s*(?:,\s*(?:and |or |plus )?|\s(?:and|&|plus)\s|(?<!\w)\d{1,2}\)\s)\s*")
_REMIND: Final = re.compile(r"remind|tell me|alert|notify|ping|wake|alarm")
_STATUSES: Final[tuple[tuple[re.Pattern[str], Status], ...]] = (
    (re.compile(r"\b(?:haven't|not|yet to|un|in)[ -]?(?:i )?(?:yet )?(?:done|complete|finish|checked)"), "pending"),
    (re.compile(r"^(?:am i|are we) .*(?:done|finished)"), "pending"),
    (re.compile(r"\b(?:to|get|be|getting) (?:done|finished|completed)\b"), "pending"),
    (re.compile(r"\b(?:completed?|finish(?:ed)?|done|(?:check|tick|cross)(?:ed)? off|checked|accomplished)\b"), "completed"),
    (re.compile(r"\b(?:pending|open|left|remain|remaining|outstanding|active|still|else|next|missing)\b"), "pending"),
)


def read_clause(clause: Clause) -> Request:
    """Return the request that one clause makes; `UNCLEAR` if no cue fits."""
    for attempt in (clause, without_politeness(clause)):
        if (talk := _first(attempt, "talk")) is not None:
            return talk
    clause = without_politeness(clause)
    if clause.key.count(" ") > _MAX_WORDS:
        return Add((clause.text,)) if _first(clause.cut(0, 200), "add") else UNCLEAR
    attempts = [clause, *_commands_inside(clause)]
    for names in (("guards", "add", "update", "act", "ask"), ("last",)):
        for attempt in attempts:
            for name in names:
                if (request := _first(attempt, name)) is not None:
                    return request
    return _leftover(clause)


def without_politeness(clause: Clause) -> Clause:
    """Return the clause without greetings, requests and thanks around it; never an empty one."""
    while (found := part("LEAD").match(clause.key)) and (rest := clause.cut(found.end())).key:
        clause = rest
    while found := part("TAIL").search(clause.key[-40:].rstrip(" .!?")):
        end = len(clause.key.rstrip(" .!?")) - len(found[0])
        if end <= 0:
            break
        clause = clause.cut(0, end)
    return clause


def _commands_inside(clause: Clause) -> Iterator[Clause]:
    """Yield what follows unknown words, from a command on ("it'd be grand to have milk put on my list")."""
    for found in islice(part("INSIDE").finditer(clause.key), 3):
        if not part("ASIDE").search(clause.key[: found.start()]):
            yield clause.cut(found.start())


def can_follow(clause: Clause, before: Request, *, new_sentence: bool) -> bool:
    """True if the clause is a command that can follow `before` after "and". The text of a new task may contain "and" itself.

    So what follows a new task must name a task, a place, the list or a change.
    """
    clause = without_politeness(clause)
    request = next(filter(None, (_first(clause, name) for name in ("guards", "add", "update", "act", "ask", "last"))), None)
    if isinstance(request, Show) and (
        re.match(r"(?:is|are) (?:it|that|they)\b", clause.key) or (request.about and not part("ASKS_LIST").match(clause.key))
    ):
        return False
    if not isinstance(before, Add | Offer | Say):
        planned = isinstance(request, Offer) and bool(part("PLANNED").match(clause.key))
        return planned or isinstance(request, Add | Complete | Delete | Show | Update)
    match request:
        case Show():
            return not isinstance(before, Say) or bool(part("SHOWN").search(clause.key))
        case Complete() | Update():
            return True
        case Add(texts):
            bare = clause.key.removeprefix("add ")
            return (
                (bare != clause.key and not texts)
                or (bare == clause.key and bool(texts))
                or new_sentence
                or starts_with_action(clause.cut(4))
                or bool(part("TASK").search(bare))
            )
        case Delete(target):
            tail = clause.key.partition(" ")[2]
            if target.pronoun or (before == UNCLEAR and tail.isalpha()):
                return isinstance(before, Say)
            return not target.every and (
                names_task(clause_of(tail)) or bool(re.search(r"\b(?:list|tasks?|reminders?)\b", tail))
            )
        case _:
            return False


def description(clause: Clause) -> str:
    """Return the text of a new task: without the quotes around all of it and the period that ends the sentence."""
    text, key = clause.text, clause.key
    if len(key) > 3 and key[0] in "\"'" and key[-2] == key[0] and key[-1] in ".!,":
        text, key = text[:-1], key[:-1]
    if len(key) > 2 and key[0] in "\"'" and key[-1] == key[0] and (key[0] == "'" or key.count('"') == 2):
        return text[1:-1].strip()
    if key.endswith((".", "!")) and not re.search(r"(?:\b\w\.|\.\.)$", key):
        return text[:-1].rstrip(" .!") or text
    return text


def items_of(text: str) -> tuple[str, ...]:
    """Return the things that a text enumerates; nothing if it is no enumeration of short things."""
    items = tuple(item.strip(" .") for item in _ITEM.split(text) if item.strip(" ."))
    return items if len(items) > 1 and max(len(item.split()) for item in items) <= 5 else ()


def _first(clause: Clause, *names: str) -> Request | None:
    """Return the request of the first pattern in the named tables that fits the clause."""
    key = clause.key.rstrip(" .!?,")
    if names[0] == "talk" or (names[0] == "act" and key.count(" ") > 1):
        key = re.sub(r"(?:[\s.!?,]|[:;]-?[()dp]$|[^\w\s\x21-\x7e✅✔☑\ufe0f])+$", "", key)
    for section, notation in (row for name in names for row in tables()[name]):
        pattern = compiled(notation)
        found = pattern.fullmatch(key)
        if found is None:
            continue
        if section.startswith("say "):
            return Say(section.removeprefix("say "))
        spans = {name: found.span(name) for name in pattern.groupindex if found.start(name) >= 0}
        groups = {name: clause.cut(start, _end(clause, end, len(key))) for name, (start, end) in spans.items()}
        if (request := _BUILDERS[section](clause, defaultdict(lambda: EMPTY, groups))) is not None:
            return request
    return None


def _end(clause: Clause, end: int, matched: int) -> int:
    """A group at the end of the match takes the punctuation with it: it may belong to an abbreviation."""
    return len(clause.key) if end == matched and not clause.key.endswith("?") else end


def _one_of(groups: Groups, *names: str) -> Clause:
    return next((groups[name] for name in names if groups[name].key), EMPTY)


def _add(clause: Clause, groups: Groups) -> Request | None:
    text, when = groups["text"], groups["when"]
    if found := re.search(rf",? {part('TO_LIST').pattern}(?:\.|!)*$", text.key):
        text = text.cut(0, found.start())
    if part("NOTHING").fullmatch(text.key.strip(" .!?:,-")) or part("TIME").fullmatch(text.key):
        return Add()
    if read_reference(text).pronoun or part("ANYTHING").fullmatch(text.key):
        return Say("which")
    if part("ALL_QUOTED").fullmatch(text.key):
        return Add(tuple(re.findall(r'"([^"]+)"', text.text)))
    several = part("SEPARATE").fullmatch(text.key)
    if several and (items := items_of(text.text[: several.end("items")])):
        return Add(items)
    chores = items_of(description(text.cut(5) if text.key.startswith("both ") else text).replace(" and also ", " and "))
    if (
        chores
        and not re.search(r"&|remind", clause.key)
        and not when.key
        and all(starts_with_action(clause_of(chore)) for chore in chores)
    ):
        return Add(chores)
    first = text.key.partition(" ")[0]
    clear = starts_with_action(text) or clause.key.endswith(f"to {text.key}")
    if clause.key.startswith("remember ") and (first in vocabulary.ORDERS or not clear):
        return None
    timed = bool(_REMIND.search(clause.key) and (when.key or part("TIMES").search(text.key)))
    return Add((" ".join(filter(None, (description(text), when.text))),), timed)


def _remind(clause: Clause, groups: Groups) -> Request | None:
    """ "remind me X": not a question about something ("remind me what my pin is")."""
    text = groups["text"]
    if text.key.partition(" ")[0] in vocabulary.QUESTION_WORDS | {"if", "whether", "your"}:
        return None
    before = clause.key[: clause.key.rindex(text.key)].split() if text.key else ["to"]
    clear = (
        groups["when"].key or starts_with_action(text) or part("TIMES").search(text.key) or part("NOTHING").fullmatch(text.key)
    )
    return Offer(description(text)) if before[-1:] == ["of"] and not clear else _add(clause, groups)


def _add_items(clause: Clause, groups: Groups) -> Request | None:
    text = description(groups["text"])
    items = items_of(text)
    return Add(items) if items else _add(clause, groups)


def _add_bare(clause: Clause, groups: Groups) -> Request | None:
    """ "add X" without a list: clear if X is a chore or a plain thing. "add John as a friend" is offered."""
    text = groups["text"]
    if found := re.search(r" (?:again|back|too|as well|instead)[.!]?$", text.key):
        text = groups["text"] = text.cut(0, found.start())
    if part("SEPARATE").fullmatch(text.key):
        return _add(clause, groups)
    strange = is_foreign(
        text, vocabulary.FOREIGN if " to " in text.key or text.key.startswith("a ") else vocabulary.DIGITAL
    ) or part("ELSEWHERE").search(text.key)
    if strange and not (text.key[:1] in "\"'" or starts_with_action(text) or part("NOTHING").fullmatch(text.key)):
        return Offer(description(text))
    return _add(clause, groups)


def _placed(clause: Clause, groups: Groups) -> Request | None:
    """ "put milk on my list", "jot down call Bo", "new task: call Bo": the text without the words that say where it is put."""
    text, placed = groups["text"], False
    while text.key:
        if found := part("FRONT").match(text.key) or part("BACK").search(text.key):
            groups |= {"when": text.cut(*found.span("when"))} if found["when"] else {}
            text, placed = text.cut(found.end()) if found.start() == 0 else text.cut(0, found.start()), True
        elif text.start == groups["text"].start and (found := part("PARTICLE_FRONT").match(text.key)):
            text = text.cut(found.end())
        else:
            break
    if text.key.startswith("my ") and is_foreign(text, vocabulary.DIGITAL):
        return None
    groups["text"] = text
    return _add(clause, groups) if placed else None


def _other_list(_clause: Clause, groups: Groups) -> Request:
    text = description(groups["text"])
    return Offer(text, other_list=groups["list"].text) if text else Say("other_list")


def _complete(clause: Clause, groups: Groups) -> Request | None:
    if groups["but"].key:
        return Complete(Reference(every=True, but=groups["but"].text))
    ref = _target(_one_of(groups, "ref", "ref2", "at"))
    past = groups["past"].key
    if "✅" in clause.key and (found := re.search(r" (?:is|are|was|has been|have been) \w+$", ref.key)):
        ref = ref.cut(0, found.start())
    if (
        ref.key.rstrip(" .") == "deal"
        or re.search(r"^the \w+ of | (?:is|are|was) ", ref.key)
        or (re.match(r"(?:i|we|finished|done)\b", clause.key) and is_story(clause))
    ):
        return None
    if ref.key.partition(" ")[0] in vocabulary.NO_REFERENCE - {"do"} or (
        past and (not is_past(past) or past in {"read", "seen"})
    ):
        return None
    # "finish the report" may also be a plan.
    instead = description(clause) if clause.key.startswith("finish ") else ""
    return Complete(read_reference(ref), instead) if may_name_task(ref) else None


def _complete_named(_clause: Clause, groups: Groups) -> Request | None:
    ref = _target(groups["ref"])
    bare = len(ref.key.split()) == 1 and not is_foreign(ref) and ref.key not in {"in", "out", "up", "this", "that", "it"}
    return Complete(read_reference(ref)) if (names_task(ref) or bare) and not read_reference(ref).every else None


def _target(ref: Clause) -> Clause:
    """Return the words that name the task, without what explains the request: "the fence, my brother does it"."""
    for found in re.finditer(r"(?:\s*[,;.]|\s-|\bbecause\b|\bsince\b)+\s+", ref.key):
        if found.start() and ("because" in found[0] or "since" in found[0] or part("EXPLAINS").match(ref.key, found.end())):
            return ref.cut(0, found.start())
    return ref


def _complete_said(clause: Clause, _groups: Groups) -> Request | None:
    return Complete(Reference(words=clause.text)) if _may_be_said(clause) and not is_story(clause) else None


def _delete_said(clause: Clause, _groups: Groups) -> Request | None:
    return Delete(Reference(words=clause.text)) if _may_be_said(clause) else None


def _may_be_said(clause: Clause) -> bool:
    """True if a clause with a cue word may be about a task, although its form is unknown."""
    strange = is_foreign(clause) or part("OTHERS").search(clause.key)
    return len(clause.key.split()) <= _MAX_SAID and (not strange or bool(part("MENTIONS_TASK").search(clause.key)))


_MAX_SAID: Final = 20


def _report(clause: Clause, groups: Groups) -> Request | None:
    if clause.key.endswith("?"):
        return None
    if groups["about"].key:
        return read_state(
            clause, groups["about"], groups["be"].key, groups["verb"].key.rstrip(" .!"), groups["particle"].key.rstrip(" .!")
        )
    said = groups["doing"] if groups["doing"].key else groups["ref"]
    done = bool(groups["doing"].key) or (groups["who"].key.endswith("have") and bool(_BASE_FORM.match(said.key)))
    return read_report(clause, said, by_user=bool(groups["who"].key), finished=done)


_BASE_FORM: Final = re.compile(rf"(?:{'|'.join(sorted(vocabulary.ACTION_VERBS))}) (?:the|my|our) ")
"""A base form where a participle belongs: "i have paint the fence"."""


def _words(key: str) -> list[str]:
    return [word.removesuffix("'s") for word in re.findall(r"\w[\w'-]*", key)]


_MAX_WORDS: Final = 80
_OTHER_DATA: Final = re.compile(r"\b(?:all|every).* (?:data|account|history|files|stuff)\b")


def _delete_every(clause: Clause, _groups: Groups) -> Request:
    if _OTHER_DATA.search(clause.key):
        return Say("delete_every")
    status = next((status for pattern, status in _STATUSES if pattern.search(clause.key)), None)
    return Delete(Reference(every=True, status=status if part("OF_STATUS").search(clause.key) else None))


def _delete(_clause: Clause, groups: Groups) -> Request | None:
    # One word without an article can hardly be meant for another service: "delete meeting".
    ref = _target(groups["ref"])
    return Delete(read_reference(ref)) if may_name_task(ref) or ref.key.isalpha() else None


def _delete_named(clause: Clause, groups: Groups) -> Request | None:
    ref, named = _target(groups["ref"]), groups["named"]
    if named.key and not is_foreign(named):
        return Delete(read_reference(named), instead=description(clause))
    if ref.key and names_task(ref):
        return Delete(read_reference(ref))
    likely = (
        not clause.key.startswith("take") and re.match(r"(?:the|that) ", ref.key) and may_name_task(ref) and not is_foreign(ref)
    )
    return Delete(read_reference(ref), instead=description(clause)) if likely else None


def _delete_listed(_clause: Clause, groups: Groups) -> Request:
    return Delete(read_reference(_target(groups["ref"])))


def _update(clause: Clause, groups: Groups) -> Request | None:
    """Every " to " may begin the new words; which one does is known when the tasks are."""
    body = groups["body"]
    choices = []
    for found in list(part("BECOMES").finditer(body.key))[:6]:
        ref, new = body.cut(0, found.start()), body.cut(found.end())
        if ref.key and new.key and _may_change(clause, ref, new):
            choices.append((read_reference(ref), _without_instead(new)))
    if not choices or _STATE.fullmatch(choices[0][1].lower()):
        return None
    named = part("MENTIONS_TASK").search(body.key[: body.key.rfind(" to ")])
    return Update(
        tuple(choices), inside=not named and bool(re.match(r"(?:change|replace|swap|switch|correct|fix)\b", clause.key))
    )


def _update_pair(_clause: Clause, groups: Groups) -> Request | None:
    ref, text = _one_of(groups, "ref", "ref2", "at"), _one_of(groups, "text", "new")
    return Update(((read_reference(ref), _without_instead(text)),)) if may_name_task(ref) else None


def _may_change(clause: Clause, ref: Clause, new: Clause) -> bool:
    """True if the words name a task, or could be one: "change the oven to 350" is about something else."""
    if is_foreign(ref, vocabulary.DIGITAL):
        return bool(part("MENTIONS_TASK").search(ref.key))
    if names_task(ref) or is_time(new):
        return may_name_task(ref)
    wide = clause.key.startswith(("rename", "change", "update", "edit", "reword"))
    plain = ref.key != "back" and not ref.key.startswith(("the ", "a ", "my "))
    return wide and may_name_task(ref) and (starts_with_action(new) or plain)


_STATE: Final = re.compile(r"(?:done|complete|completed|finished|incomplete|pending|not done|undone|open)")


def _without_instead(clause: Clause) -> str:
    found = re.search(r",? (?:instead|from now on)[.!]?$", clause.key)
    return description(clause.cut(0, found.start()) if found else clause)


def _update_open(clause: Clause, groups: Groups) -> Request | None:
    ref, moved = groups["ref"], groups["at"]
    if moved.key or names_task(ref):
        ref = ref if ref.key else moved
        return Update(((read_reference(ref), None),)) if may_name_task(ref) else None
    short = len(ref.key.split()) <= 3 and not ref.key.startswith("your") and not part("DEFINITE").match(ref.key)
    return Update(((read_reference(ref), None),), instead=description(clause)) if short and may_name_task(ref) else None


def _show(clause: Clause, _groups: Groups) -> Request | None:
    """A question or an order in known words about the list, or about what the user has to do.

    Beside "my list" and the like, other words may occur.
    """
    words = _words(clause.key) or [""]
    if words[0] == "find" and "my" not in words:
        return None
    mine = vocabulary.FIRST_PERSON.intersection(words)
    if {"you", "your"}.intersection(words) and not mine:
        return None
    rest = _words(part("WHOLE").sub(" ", part("SHOWN").sub(" ", part("TIMES").sub(" ", clause.key))))
    known = vocabulary.SHOW_WORDS.issuperset(rest)
    first = words[0]
    opens = first in vocabulary.SEE | vocabulary.QUESTION_WORDS or bool(part("RECALLS").search(clause.key))
    if part("SHOWN").search(clause.key):
        if first in {"why", "who"} or (first in vocabulary.MODALS and {"add", "added", "put", "go"}.intersection(words)):
            return None
        names = known and vocabulary.NO_TASK.isdisjoint(rest) and not part("BEGINS_LOOSELY").match(clause.key)
        mine_too = part("MINE").search(clause.key) and not re.match(r"who\b|are (?:my|the)\b", clause.key)
        return _shown(clause) if names or (opens and (known or mine_too)) else None
    if vocabulary.SEE.union(vocabulary.SHOW_ALONE, ("again", "now", "me", "the", "my")).issuperset(
        words
    ) and vocabulary.SHOW_ALONE.intersection(words):
        return _shown(clause)
    duties = vocabulary.DUTIES.intersection(words) and (mine or vocabulary.STATES.intersection(words))
    whole = vocabulary.SEE.intersection(words) and part("WHOLE").search(clause.key)
    asks = (
        opens
        and first not in vocabulary.MODALS
        and (first != "how" or {"many", "much"}.intersection(words))
        and first not in vocabulary.ABOUT_OTHERS
    )
    return _shown(clause) if known and len(words) > 1 and (whole or (duties and asks)) else None


def _show_plain(clause: Clause, _groups: Groups) -> Request:
    return _shown(clause)


def _ask_about(_clause: Clause, groups: Groups) -> Request | None:
    """ "did i pay rent", "what about the dentist"."""
    about = groups["said"] if groups["said"].key else groups["about"]
    named = starts_with_action(about) if groups["said"].key else may_name_task(about)
    short = len(about.key.split()) <= (5 if groups["said"].key else 3)
    return Show(about=read_reference(about).words) if named and short and not is_foreign(about) else None


def _shown(clause: Clause) -> Show:
    whole = part("INCLUDING").search(clause.key)
    status = None if whole else next((status for pattern, status in _STATUSES if pattern.search(clause.key)), None)
    dated = any(found[0] not in {"today", "now", "later", "tonight"} for found in part("TIMES").finditer(clause.key))
    return Show(status, dated=dated)


def _show_about(clause: Clause, groups: Groups) -> Request | None:
    words = read_reference(groups["about"]).words
    if vocabulary.SHOW_WORDS.issuperset(_words(groups["about"].key)):
        return _shown(clause)
    unnamed = re.fullmatch(r"(?:(?:anything|something|any|much|more|nothing|left|else|open|still|new|stuff) ?)*", words.lower())
    return _shown(clause) if unnamed else Show(about=words)


def _show_named(clause: Clause, groups: Groups) -> Request | None:
    """ "is the car on my list", "do i have anything about the car": the unknown words of a question about the list."""
    if _words(clause.key)[0] not in vocabulary.OPENS and not clause.key.endswith("?"):
        return None
    about = _one_of(groups, "about", "of")
    spans = [
        word.span()
        for word in re.finditer(r"[\w'-]+", about.key)
        if word[0].removesuffix("'s") not in vocabulary.SHOW_WORDS | vocabulary.ABOUT_WORDS
    ]
    if not spans or part("ONLY_TIME").fullmatch(about.cut(spans[0][0], spans[-1][1]).key):
        return None
    about = about.cut(spans[0][0], spans[-1][1])
    return Show(about=about.text) if len(about.key.split()) <= 4 and not is_foreign(about, vocabulary.DIGITAL) else None


def _search(clause: Clause, groups: Groups) -> Request | None:
    about = groups["about"]
    short = names_task(about) or (len(about.key.split()) <= 3 and not about.key.startswith(("a ", "an ", "the ", "some ")))
    return _show_about(clause, groups) if short and may_name_task(about) else None


def _needed(clause: Clause, groups: Groups) -> Request | None:
    text = groups["text"]
    items = items_of(description(text)) if " need " in f" {clause.key}" else ()
    dated = clause.key.startswith(("i ", "we ")) and re.match(r"(?:an?|my|the) ", text.key) and part("TIMES").search(text.key)
    likely = items or dated or (starts_with_action(text) and len(text.key) < 120)
    words = " ".join(filter(None, (description(text), groups["when"].text)))
    return Offer(re.sub(r"^an? ", "", words) if dated else words, items if len(items) > 2 else ()) if likely else None


def _leftover(clause: Clause) -> Request:
    """Offer what could be a task, decline what certainly is something else, and ask about the rest."""
    key = clause.key.strip(" .!?,")
    words = key.split()
    if not words or not re.search(r"[^\W\d_]", key):
        return UNCLEAR
    if sum(char.isalpha() and not char.isascii() for char in key) > len(key) / 3:
        return Say("language")
    first = (_words(key) or words)[0]
    asked = clause.key.rstrip().endswith("?") or first in vocabulary.QUESTION_WORDS
    for_me = len(words) > 1 and words[1] in {"me", "us"}
    foreign = is_foreign(clause)
    chore = starts_with_action(clause) and not asked and not for_me and len(words) <= 15
    service = part("SERVICE").match(key) or (foreign and re.match(r"\w+ an? ", key)) or first in vocabulary.ORDERS
    if chore and not service:
        items = items_of(description(clause))
        several = len(items) > 2 or (items and all(starts_with_action(clause_of(item)) for item in items))
        return Offer(description(clause), items if several else ())
    if _is_elsewhere(clause, asked=asked):
        return Say("out_of_scope")
    if asked or for_me:
        return UNCLEAR
    items = items_of(clause.text.rstrip(" .!?"))
    if (
        vocabulary.NO_TASK.intersection(words)
        or len(words) > (20 if items else 12 if part("TIMES").search(key) else 4)
        or (foreign and not items)
    ):
        return UNCLEAR
    return Offer(description(clause), items, bare=not items)


def _is_elsewhere(clause: Clause, *, asked: bool) -> bool:
    """True for what certainly is something else: an order for another service, or a question about the world."""
    words = re.findall(r"[\w'-]+", clause.key)
    if (
        part("SERVICE").match(clause.key)
        or words[0] in vocabulary.ORDERS
        or (is_foreign(clause) and words[1:2] in (["a"], ["an"]))
    ):
        return True
    if (
        is_foreign(clause)
        and len(words) > 1
        and (asked or words[0] in {"set", "tell", "show", "give", "find", "open", "read", "get", "cancel"})
    ):
        return True
    mine = vocabulary.FIRST_PERSON.intersection(words)
    return asked and not mine and any(word not in vocabulary.SHOW_WORDS for word in words)


_BUILDERS: Final[dict[str, Builder]] = {
    builder.__name__.removeprefix("_"): builder
    for builder in (
        *(_add, _add_bare, _placed, _add_items, _remind, _other_list, _needed),
        *(_complete, _complete_named, _complete_said, _report),
        *(_delete, _delete_every, _delete_listed, _delete_named, _delete_said),
        *(_update, _update_pair, _update_open, _show, _show_plain, _show_about, _show_named, _ask_about, _search),
    )
}
"""The builders that the sections of `cues.txt` name; a section "say X" says the text X."""
