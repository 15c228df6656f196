// What the rows change in the texts, and what they read from them: so that rows and texts are in step at once.
import type { ToolRow } from "../shared/client";

export type Verdict = "runs" | "asks" | "refused";

const HEADING = "## Available Tools";
const ASKS = "(requires confirmation)";
const RUNS = "(without confirmation)";
const MARKERS =
  /(?: \((?:requires confirmation|without confirmation|reads|trusted results|at most [1-9]\d{0,2} per message|[A-Za-z_][\w-]* is the signed-in user)\))*\s*$/;
const LIMIT = /^\(at most (\d+) per message\)$/;

/** The place of a tool's line in the constitution; -1 if it is not listed. */
function placeOf(lines: readonly string[], name: string): number {
  const heading = lines.indexOf(HEADING);
  return lines.findIndex((line, index) => index > heading && (line.startsWith(`- ${name}: `) || line.startsWith(`- "${name}": `)));
}

function split(line: string): [text: string, markers: readonly string[]] {
  const found = MARKERS.exec(line)?.[0] ?? "";
  return [line.slice(0, line.length - found.length), found.match(/\([^)]*\)/g) ?? []];
}

/** What the line of a tool says: its verdict and the limit for a message. */
export function readRow(text: string, name: string): { readonly verdict: Verdict; readonly limit: number | null } {
  const lines = text.split("\n");
  const place = placeOf(lines, name);
  if (place < 0) return { verdict: "refused", limit: null };
  const [, markers] = split(lines[place] ?? "");
  const limit = markers.map((marker) => LIMIT.exec(marker)?.[1]).find((found) => found);
  return { verdict: markers.includes(ASKS) ? "asks" : "runs", limit: limit ? Number(limit) : null };
}

function withMarkers(text: string, name: string, change: (markers: readonly string[]) => readonly string[]): string {
  const lines = text.split("\n");
  const place = placeOf(lines, name);
  if (place < 0) return text;
  const [before, markers] = split(lines[place] ?? "");
  lines[place] = [before, ...change(markers)].join(" ");
  return lines.join("\n");
}

/** The constitution with another verdict about a tool. `original` is the one in force: a line comes back as it was there. */
export function withVerdict(text: string, row: ToolRow, verdict: Verdict, original: string): string {
  const lines = text.split("\n");
  const place = placeOf(lines, row.name);
  if (verdict === "refused") return place < 0 ? text : lines.filter((_, index) => index !== place).join("\n");
  const listed = place < 0 ? withLine(lines, row, original.split("\n")) : text;
  const marker = verdict === "asks" ? [ASKS] : row.needs_marker ? [RUNS] : [];
  return withMarkers(listed, row.name, (markers) => [...marker, ...markers.filter((one) => one !== ASKS && one !== RUNS)]);
}

/** The lines with that of `row`: where it was in the original, else behind the last one. */
function withLine(lines: readonly string[], row: ToolRow, original: readonly string[]): string {
  const known = placeOf(original, row.name);
  const next = known < 0 ? -1 : lines.indexOf(original[known + 1] ?? "", lines.indexOf(HEADING));
  let end = lines.indexOf(HEADING) + 1;
  while (lines[end]?.startsWith("- ")) end += 1;
  const at = next > 0 && next <= end ? next : end;
  return [...lines.slice(0, at), original[known] ?? row.grant, ...lines.slice(at)].join("\n");
}

/** The constitution with another limit for the calls of a tool in one message; null for none. */
export function withLimit(text: string, name: string, limit: number | null): string {
  const marker = limit === null ? [] : [`(at most ${limit} per message)`];
  return withMarkers(text, name, (markers) => {
    const at = markers.findIndex((one) => LIMIT.test(one));
    return at < 0 ? [...markers, ...marker] : [...markers.slice(0, at), ...marker, ...markers.slice(at + 1)];
  });
}

/** Conditions that every tool may have, by their names. */
export const CONDITIONS: Readonly<Record<string, string>> = {
  "the second one needs a yes": "when { context.used.message.calls > 1 }\nunless { context.confirmed };",
  "at most 20 a day": "when { context.used.day.calls > 20 };",
  "not at night": "when { context.time.hour < 8 || context.time.hour >= 18 };",
};
const FIRST = '@id("what the constitution lists")\npermit (principal, action, resource);\n';

/** The conditions with one of `CONDITIONS` for a tool. */
export function withCondition(text: string, tool: string, name: string): string {
  const scope = `(principal, action == Action::${JSON.stringify(tool)}, resource)`;
  return `${(text || FIRST).trimEnd()}\n\n@id(${JSON.stringify(`${tool}: ${name}`)})\nforbid ${scope}\n${CONDITIONS[name] ?? ""}\n`;
}
