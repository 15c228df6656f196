"""The rows of a result: what a server has returned that its call does not say.

A list of objects is a table, a long text keeps its lines, and anything else is a value in words: no reply has JSON. All of it
is a server's words, and of a large result only the start is said. The record has the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isinf
from typing import Any, Final

from graph_agent.models.nesting import is_deeper_than
from graph_agent.models.said import Said, SaidCell, SaidRow, SaidTable
from graph_agent.models.tools import ToolResult
from graph_agent.models.unique_keys import unique_keys
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.authored import Parts, by_code, by_server, table_by_server
from graph_agent.reply.text import clean_reply, counted
from graph_agent.words.readable import readable_data
from graph_agent.words.values import by_name, echoes, label, labels, lowered, spoken, summarized

_ANSWER: Final = "answer"
"""The name of a result without one."""
_MAX_ROWS: Final = 20
_MAX_NAME: Final = 60
_MAX_VALUE: Final = 1_000
_MAX_IN_ROW: Final = 300
"""The longest text that is said in a row, in characters; a longer one keeps its lines."""
_MAX_PROSE: Final = 2_000
_MAX_PROSE_LINES: Final = 50
_MAX_TABLES: Final = 3
_MAX_TABLE_ROWS: Final = 20
_MAX_COLUMNS: Final = 6
_MAX_CELL: Final = 60
_MAX_JSON: Final = 200_000
"""The longest text that is read as JSON, in characters."""
_MAX_DEPTH: Final = 20
"""The number of lists and objects inside one another that a text of JSON may have."""
_MORE: Final = "[…] (the rest is not shown)"


def result_rows(rule: ToolRule, arguments: Mapping[str, Any], said: Said, result: ToolResult) -> tuple[SaidRow, ...]:
    """Return what a result has that the call does not say: its data, its other parts, and what it addresses to the user."""
    rows = [] if result.model_only else [*rows_of_data(rule, arguments, said, _data_of(result, rule)), *_other_parts(result)]
    rows += _text_rows(rule, "For you", result.for_user)
    if (left := len(rows) - _MAX_ROWS) > 0:
        rows[_MAX_ROWS:] = [SaidRow(label="More", text=f"{counted(left, 'value')} not shown")]
    return tuple(rows)


def rows_of_data(rule: ToolRule, arguments: Mapping[str, Any], said: Said, data: Any) -> Iterator[SaidRow]:
    """Yield a row for each field of some data whose values are not all in the `arguments` of the call."""
    if data in (None, "", [], {}):
        return
    known = {*echoes(dict(arguments))}
    shown = {part.text for part in said.parts} | {row.text for row in said.rows}
    fields = data if isinstance(data, dict) else {_ANSWER: data}
    schemas = by_name(rule.traits.output or {}) if isinstance(data, dict) else {}
    named, tables = labels([*fields], _MAX_NAME), 0
    for name, value in fields.items():
        schema, own = schemas.get(name), arguments.get(name)
        # A field with the name of an argument repeats only the value of that one.
        given = known if own is None else {*echoes(own, name)}
        if value is None or given.issuperset(echoes(value, name)):
            continue
        if _is_table(value):
            tables += 1
            table = _table(name, value, schema, said.time_zone) if tables <= _MAX_TABLES else None
            yield SaidRow(label=named[name], text=counted(len(value), "row"), table=table)
        elif isinstance(value, str) and _is_prose(value):
            yield from _text_rows(rule, named[name], value)
        else:
            found = summarized(rule.user_text(value) if isinstance(value, str) else value, schema, _MAX_VALUE, said.time_zone)
            words = shown if own is None else {spoken(own, schema, limit=_MAX_VALUE, zone=said.time_zone).text}
            # A number that is said already may be another one.
            if not (isinstance(value, str) and found.text in words):
                yield SaidRow(label=named[name], text=found.text, shown=found.shown, length=found.length)


def in_reply(rows: Sequence[SaidRow]) -> Parts:
    """Return the rows of a result as lines of a reply. The lines of a long text begin with `>`, as none of the runtime does."""
    parts: Parts = ()
    for row in rows:
        if row.table is not None:
            parts += by_code(f"\n  {row.label}:\n") + table_by_server(row.table, _in_lines(row.table))
        elif row.prose:
            quoted = "\n".join(f"> {line}" for line in row.prose.split("\n"))
            parts += by_code(f"\n  {row.label}:\n") + by_server(quoted) + by_code(f"\n> {row.more}" if row.more else "")
        else:
            parts += by_code(f"\n  {row.label}: ") + by_server(row.text)
    return parts


def _in_lines(table: SaidTable) -> str:
    """Return a table with a line for each row, which names its values, and one for what is left out."""
    names = [*map(lowered, table.columns)]
    named = [[f"{name} {cell.text}" for name, cell in zip(names, row, strict=True) if cell.text] for row in table.rows]
    lines = [f"    - {', '.join(one) or 'nothing'}" for one in named]
    return "\n".join([*lines, *([f"    {table.more}"] if table.more else [])])


def _data_of(result: ToolResult, rule: ToolRule) -> Any:
    """Return the data of a result; the key of an only value may say no more than that it is one."""
    data: Any = result.data
    if isinstance(data, dict) and len(data) == 1 and data.keys() <= {"result", "server_text", "text"}:
        data = next(iter(data.values()))
    return readable_data(_from_json(data) if isinstance(data, str) else data, rule.traits.unread or ())


def _from_json(text: str) -> Any:
    """Return the data of a text that is a list or an object of JSON; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _MAX_JSON:
        return text
    try:
        data = json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text
    return text if is_deeper_than(data, _MAX_DEPTH) else data


def _finite(number: str) -> float:
    if isinf(found := float(number)):
        # No record takes an infinite number, and no reader means one.
        raise ValueError(f"{number} is too large")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _other_parts(result: ToolResult) -> Iterator[SaidRow]:
    """Yield a row for each part of a result that is no data, such as an image or a link."""
    for item in result.content:
        if item.note is not None:
            found = spoken(item.note.partition(": ")[2], limit=_MAX_IN_ROW)
            yield SaidRow(label=label(item.kind), text=found.text, shown=found.shown, length=found.length)


def _text_rows(rule: ToolRule, name: str, text: str) -> Iterator[SaidRow]:
    """Yield the row of a text that may have lines; none for one without anything to see."""
    lines = clean_reply(text[:_MAX_PROSE], rule.hidden).split("\n")
    if not any(lines):
        return
    found = spoken(rule.user_text(text), limit=_MAX_IN_ROW)
    row = SaidRow(label=name, text=found.text, shown=found.shown)
    if not _is_prose(text):
        yield row
        return
    complete = len(text) <= _MAX_PROSE and len(lines) <= _MAX_PROSE_LINES
    whole = "\n".join(lines[:_MAX_PROSE_LINES])
    yield row.replace(prose=whole, length=0 if complete else len(text), more="" if complete else _MORE)


def _is_prose(text: str) -> bool:
    """True for a text that is too long for a row."""
    return len(text) > _MAX_IN_ROW or "\n" in text.strip()


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and one for one in value)


def _table(name: str, objects: Sequence[Mapping[str, Any]], schema: Any, zone: str) -> SaidTable:
    """Return a list of objects as a table, with the fields that the first of them have."""
    shown, one_of = objects[:_MAX_TABLE_ROWS], name.removesuffix("s")
    every = list(dict.fromkeys(field for one in shown for field in one))
    # The fields of a recorded result are sorted by their names.
    every.sort(key=lambda field: field not in ("id", one_of, f"{one_of}_id"))
    names = every[:_MAX_COLUMNS]
    declared = by_name(items) if isinstance(schema, dict) and isinstance(items := schema.get("items"), dict) else {}
    rows = tuple(tuple(_cell(one.get(name), declared.get(name), zone) for name in names) for one in shown)
    left = [f"… and {len(objects) - len(shown):,} more"] if len(shown) < len(objects) else []
    left += [f"{counted(len(every) - len(names), 'column')} not shown"] if len(names) < len(every) else []
    return SaidTable(columns=tuple(labels(names, _MAX_NAME).values()), rows=rows, more=", ".join(left))


def _cell(value: Any, schema: Any, zone: str) -> SaidCell:
    if value is None:
        return SaidCell(text="")
    found = summarized(value, schema, _MAX_CELL, zone)
    return SaidCell(text=found.text, shown="" if found.length else found.shown)
