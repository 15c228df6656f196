// The path of a turn through the state machine with everything that was done on it, from its events or from its record.
import type { LLMResponse, OutcomeWords } from "../shared/client";
import type { ServerEvent } from "../shared/events";
import { words } from "../shared/format";
import { toolCall, verdictOf } from "./calls";
import type { ToolCall, Verdict } from "./calls";
import { undoingOf } from "./undo";
import type { RecordedUndo, Undoing } from "./undo";

/** A call of the model. */
export interface ModelCall {
  readonly finish_reason: string;
  readonly error: string | null;
  readonly tokens: number | null;
  readonly ms: number;
  /** The tools that it asks for, with their arguments. */
  readonly asks: readonly { readonly title: string; readonly arguments: unknown }[];
  /** Its words, if the record is known. */
  readonly text: string | null;
}

/** A call that runs, or has run in a state that is not over yet: its verdict comes with the end of the state. */
export interface BegunCall {
  readonly title: string | null;
  /** By this browser's clock. */
  readonly since: number;
}

/** One visit of a state. Times are in milliseconds. */
export interface Visit {
  readonly state: string;
  readonly round: number;
  /** Null if it is not known. */
  readonly cap: number | null;
  /** Since the turn began. */
  readonly start: number;
  /** Null while it runs, and if it is not recorded. */
  readonly ms: number | null;
  /** When the page heard of it, by this browser's clock; null in a record. */
  readonly since: number | null;
  readonly model: ModelCall | null;
  readonly calls: readonly ToolCall[];
  readonly begun: readonly BegunCall[];
  readonly receipts: readonly string[];
  /** What the turn undoes of an earlier one, in its first state, if it is an undo and its record is known. */
  readonly undoing: Undoing | null;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface StateData {
  readonly state: string;
  readonly iteration: number;
  readonly max_iterations: number;
  readonly at_ms: number;
}

interface ModelData extends Omit<ModelCall, "asks" | "text"> {
  readonly calls: readonly string[];
  readonly arguments: readonly unknown[];
}

interface ToolData extends Omit<ToolCall, "title" | "reason" | "result"> {
  readonly tool_name: string;
  readonly rule: string | null;
}

/** The visits of a turn, in order; an event that follows a state belongs to its visit. */
export function visitsOf(events: readonly ServerEvent[]): Visit[] {
  const visits: Mutable<Visit>[] = [];
  for (const { type, data, at } of events) {
    const last = visits.at(-1);
    if (type === "state") {
      const { state, iteration: round, max_iterations: cap, at_ms: start } = data as StateData;
      if (last) last.ms = start - last.start;
      visits.push({ state, round, cap, start, ms: null, since: at, model: null, calls: [], begun: [], receipts: [], undoing: null });
    } else if (type === "decision" && last && at !== null && last.since !== null) {
      last.ms = at - last.since;
    } else if (type === "call" && last && at !== null) {
      const { title, ms } = data as { title: string | null; ms: number };
      last.begun = [...last.begun, { title: title && words(title), since: at - ms }];
      // A page that comes later learns from the call how long the state has been running.
      last.since = Math.min(last.since ?? at, at - ms);
    } else if (type === "model_call" && last) {
      const { calls, arguments: given, ...model } = data as ModelData;
      const asks = calls.map((title, index) => ({ title: words(title), arguments: given[index] ?? null }));
      last.model = { ...model, asks: asks.filter((one) => one.arguments !== null), text: null };
    } else if (type === "tool_call" && last) {
      const { tool_name: name, rule: reason, ...call } = data as ToolData;
      last.calls = [...last.calls, { ...call, title: words(name), reason, result: null }];
    } else if (type === "receipt" && last) {
      last.receipts = [...last.receipts, (data as { text: string }).text];
    }
  }
  return visits;
}

/** What the record of a closed decision has about its path. */
export interface RecordedTurn extends RecordedUndo {
  readonly states: readonly string[] | null;
  readonly state_ends_us: readonly number[];
  readonly llm_calls: readonly { readonly response: LLMResponse; readonly duration_ms: number }[];
}

const FORMS = ["answer", "ask_user", "decline"];

/** The visits of a closed decision. */
export function visitsOfRecord(turn: RecordedTurn, cap: number | null): Visit[] {
  const ends = turn.state_ends_us;
  const models = [...turn.llm_calls];
  const left = [...turn.tool_invocations];
  const visits: Visit[] = [];
  let batch = Infinity;
  let round = 1;
  for (const [index, state] of (turn.states ?? []).entries()) {
    if (state === "INVOKE_LLM" && visits.at(-1)?.state === "CHECK_ITERATIONS") round += 1;
    const before = visits.at(-1);
    const start = before ? before.start + (before.ms ?? 0) : 0;
    const end = ends[index];
    let model: ModelCall | null = null;
    // An interrupted turn enters the state without asking the model, but asks it never again.
    const answered = state === "INVOKE_LLM" ? models.shift() : undefined;
    if (answered) {
      const { response, duration_ms: ms } = answered;
      const asked = (response.function_calls ?? []).filter(({ name }) => !FORMS.includes(name));
      batch = asked.length;
      model = {
        finish_reason: response.finish_reason,
        error: response.error ?? null,
        tokens: response.usage?.total_tokens ?? null,
        ms,
        asks: asked.map(({ name, arguments: given }) => ({ title: words(name), arguments: given })),
        text: response.content ?? null,
      };
    }
    // Without a call of the model it is the confirmed one, or all of a decision without a model.
    const made = state === "EXECUTE_TOOLS" ? left.splice(0, batch) : [];
    const calls = made.map((call) => toolCall(call, turn.operations?.[call.sequence] ?? null));
    // A record of an earlier version has only the times of the calls.
    const least = calls.reduce((sum, call) => sum + (call.ms ?? 0), model?.ms ?? 0);
    const ms = end === undefined ? least : end / 1000 - start;
    const undoing = before ? null : undoingOf(turn);
    visits.push({ state, round, cap, start, ms, since: null, model, calls, begun: [], receipts: [], undoing });
  }
  return visits;
}

/** How a turn came out: `cap` if its rounds were used up, `refused` if code or the model refused something. */
export type Ending = "good" | "failed" | "cap" | "refused";

/** The ending of a turn from its path, and the kind of its outcome once that is known. */
export function endingOf(path: readonly Visit[], kind: OutcomeWords["kind"] | null): Ending {
  const passed = (state: string): boolean => path.some((visit) => visit.state === state);
  if (passed("TIMEOUT_RESPONSE")) return "cap";
  if (passed("ERROR_RESPONSE") || kind === "error") return "failed";
  const isRefused = path.some(({ calls }) => calls.some((one) => one.disposition === "refused"));
  return isRefused || kind === "refusal" ? "refused" : "good";
}

/** How many calls of a state came out in one way. */
export interface Count {
  readonly verdict: Verdict;
  readonly count: number;
}

const COUNTED: readonly Verdict[] = ["done", "failed", "awaiting", "unknown", "skipped", "running"];

/** The calls of a state by how they came out; a refused one counts as failed, as it has the same sign. */
export function countsOf(visits: readonly Visit[]): readonly Count[] {
  const verdicts = visits.flatMap((visit) => [
    ...(visit.model ? [visit.model.error ? "failed" : "done"] : []),
    ...visit.calls.map(verdictOf).map((one) => (one === "refused" ? "failed" : one)),
  ]);
  return COUNTED.map((verdict) => ({ verdict, count: verdicts.filter((one) => one === verdict).length })).filter(({ count }) => count > 0);
}
