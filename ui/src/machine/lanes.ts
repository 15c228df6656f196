// The bars of a turn to scale: a lane for each round, and in it a bar for each state, model call and tool call.
import { verdictOf } from "./calls";
import type { ToolCall, Verdict } from "./calls";
import type { ModelCall, Visit } from "./path";

export interface Bar {
  /** Its place in the address: `round2.call3`, `round2.model`, `round2.check_response`. */
  readonly id: string;
  readonly kind: "state" | "model" | "tool";
  readonly title: string;
  /** Milliseconds since its lane began. */
  readonly start: number;
  /** Zero for a call that was not sent. */
  readonly ms: number;
  readonly verdict: Verdict | null;
  /** The number of the visit, from 0. */
  readonly visit: number;
  readonly model?: ModelCall;
  readonly call?: ToolCall;
}

export interface Lane {
  readonly round: number;
  readonly ms: number;
  readonly tokens: number;
  readonly bars: readonly Bar[];
}

/** The lanes of a path; `now` is this browser's time while the turn runs. */
export function lanesOf(visits: readonly Visit[], now: number | null): Lane[] {
  const lanes: { round: number; from: number; ms: number; tokens: number; bars: Bar[] }[] = [];
  for (const [index, visit] of visits.entries()) {
    let lane = lanes.at(-1);
    if (lane?.round !== visit.round) {
      lane = { round: visit.round, from: visit.start, ms: 0, tokens: 0, bars: [] };
      lanes.push(lane);
    }
    const isRunning = now !== null && index === visits.length - 1 && visit.since !== null;
    const start = visit.start - lane.from;
    const ms = visit.ms ?? (isRunning ? Math.max(0, now - (visit.since ?? now)) : 0);
    const add = (bar: Omit<Bar, "visit">): number => lane.bars.push({ ...bar, visit: index });
    const own = `round${visit.round}.`;
    add({ id: own + visit.state.toLowerCase(), kind: "state", title: visit.state, start, ms, verdict: null });
    if (visit.model) {
      const { model } = visit;
      lane.tokens += model.tokens ?? 0;
      add({ id: `${own}model`, kind: "model", title: "model", start, ms: model.ms, verdict: model.error ? "failed" : "done", model });
    } else if (isRunning && visit.state === "INVOKE_LLM") {
      add({ id: `${own}model`, kind: "model", title: "model", start, ms, verdict: "running" });
    }
    // The calls of a batch run one after the other. What is left of their state is the time of the guard and of the record.
    let end = start;
    for (const call of visit.calls) {
      const length = call.ms ?? 0;
      add({ id: `${own}call${call.sequence}`, kind: "tool", title: call.title, start: end, ms: length, verdict: verdictOf(call), call });
      end += length;
    }
    const begun = visit.calls.length > 0 ? [] : visit.begun.filter(({ title }) => title !== null);
    for (const [number, { title, since }] of begun.entries()) {
      const next = begun[number + 1]?.since;
      const length = Math.max(0, (next ?? now ?? since) - since);
      const verdict = next === undefined ? "running" : "done";
      const from = start + Math.max(0, since - (visit.since ?? since));
      add({ id: `${own}begun${number + 1}`, kind: "tool", title: title ?? "", start: from, ms: length, verdict });
    }
    lane.ms = Math.max(lane.ms, ...lane.bars.map((bar) => bar.start + bar.ms));
  }
  return lanes;
}
