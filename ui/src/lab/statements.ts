// The conditions in a text in Cedar, and which of them are in the shadow. A text or a comment may have any sign in it.

export interface Statement {
  /** Its place among the conditions of the text, from 0. */
  readonly number: number;
  readonly start: number;
  /** Behind its semicolon. */
  readonly end: number;
  /** Its annotations `@shadow`. */
  readonly shadow: readonly Place[];
  /** Its tokens but those of `shadow`. */
  readonly source: string;
}

type Place = readonly [start: number, end: number];

const TOKEN = /\/\/[^\n\r]*|"(?:[^"\\]|\\[^])*"|[A-Za-z_]\w*|\d+|[^\s\w]/g;

/** The conditions of a text, in order; one that is not ended is none. */
export function statements(text: string): readonly Statement[] {
  const found: Statement[] = [];
  let tokens: RegExpExecArray[] = [];
  for (const token of text.matchAll(TOKEN)) {
    if (token[0].startsWith("//")) continue;
    tokens.push(token);
    if (token[0] !== ";") continue;
    const shadow = shadowIn(tokens);
    const others = tokens.filter(({ index }) => !shadow.some(([start, end]) => start <= index && index < end));
    const source = others.map(([one]) => one).join(" ");
    found.push({ number: found.length, start: tokens[0]!.index, end: token.index + 1, shadow, source });
    tokens = [];
  }
  return found;
}

function shadowIn(tokens: readonly RegExpExecArray[]): readonly Place[] {
  const found: Place[] = [];
  // Annotations come first: `@` is not used elsewhere.
  for (let at = 0; tokens[at]?.[0] === "@"; ) {
    const last = tokens[at + 2]?.[0] === "(" ? at + 4 : at + 1;
    const end = tokens[last];
    if (tokens[at + 1]?.[0] === "shadow" && end) found.push([tokens[at]!.index, end.index + end[0].length]);
    at = last + 1;
  }
  return found;
}

/**
 * The condition of `text` that is the one with this number in `known`, the text that the rows were made of; undefined if it was
 * edited since. Equal ones are told apart by their order.
 */
export function statementAt(text: string, known: string, number: number): Statement | undefined {
  const before = statements(known);
  const source = before[number]?.source;
  const earlier = before.slice(0, number).filter((one) => one.source === source).length;
  return statements(text).filter((one) => one.source === source)[earlier];
}

/** The text with a condition out of the shadow, or in it. `original` is the text in force: it comes back as it was. */
export function withOtherShadow(text: string, one: Statement, original: string): string {
  const before = statements(original)[one.number];
  return before && toggled(original, before) === text ? original : toggled(text, one);
}

function toggled(text: string, { start, shadow }: Statement): string {
  if (shadow.length === 0) return `${text.slice(0, start)}@shadow ${text.slice(start)}`;
  return shadow.reduceRight((rest, place) => withoutAnnotation(rest, place, place[0] === start), text);
}

/** A text without an annotation, and without the space or the line that was only there for it. */
function withoutAnnotation(text: string, [start, end]: Place, isFirst: boolean): string {
  const before = text.slice(0, start);
  const after = text.slice(end);
  if (isFirst || /\n[ \t]*$/.test(before)) return before + after.trimStart();
  if (/^[ \t]*\r?\n/.test(after)) return before.replace(/[ \t]+$/, "") + after;
  const rest = after.replace(/^[ \t]+/, "");
  return before + (/\w$/.test(before) && /^\w/.test(rest) ? " " : "") + rest;
}

/** The text without a condition. Where nothing else is on its lines, they go with it, and the empty ones before them. */
export function withoutStatement(text: string, { start, end }: Statement): string {
  const before = text.slice(0, start);
  const after = text.slice(end);
  if (!/^[ \t]*(?:\r?\n|$)/.test(after)) return before + after.replace(/^[ \t]+/, "");
  if (!/(?:^|\n)[ \t]*$/.test(before)) return before.trimEnd() + after;
  const kept = before.trimEnd();
  return (kept && `${kept}\n`) + after.replace(/^[ \t]*\r?\n/, "");
}
