// What the tried rules do with the last decisions: streamed by the server, and counted by flow.
import { signal } from "@preact/signals";
import { ApiError, post, whenSignedOut } from "../shared/client";
import { events } from "../shared/events";
import type { Edit } from "./texts";

/** The ends of a flow, in the order in which they are drawn. */
export const FATES = ["runs", "asks", "refused", "no call", "unknown"] as const;
export type Fate = (typeof FATES)[number];

export interface Item {
  readonly decision_id: string;
  readonly message: string;
  readonly before: Fate;
  readonly after: Fate;
  readonly tool_name: string | null;
  readonly why: string | null;
  /** The calls that rules in the shadow would have decided otherwise. */
  readonly shadow: readonly ShadowedCall[];
}

interface ShadowedCall {
  readonly call: string;
  readonly verdicts: readonly (readonly [rule: string, decision: ShadowDecision])[];
  /** Each verdict in words. */
  readonly said: readonly string[];
}

export type ShadowDecision = "asks" | "waits" | "refused" | "unknown";

/** A call that one rule in the shadow would have decided otherwise. */
export interface Shadowed {
  readonly decision_id: string;
  readonly message: string;
  readonly call: string;
  readonly decision: ShadowDecision;
  readonly said: string;
}

/** What rules in the shadow would have changed, by their names. */
export interface Trial {
  readonly ended_early: number;
  readonly rules: Readonly<Record<string, RuleTrial>>;
}

export interface RuleTrial {
  /** The decisions in which the rule was in force. */
  readonly judged: number;
  readonly asked: number;
  readonly waited: number;
  readonly refused: number;
  readonly unknown: number;
  readonly decisions: number;
  readonly by_tool: Readonly<Record<string, number>>;
  readonly by_user: Readonly<Record<string, number>>;
}

/** The decisions that go from one end to another: all are counted, the newest are kept. */
export interface Band {
  readonly before: Fate;
  readonly after: Fate;
  readonly count: number;
  readonly items: readonly Item[];
}

export interface Flows {
  readonly edit: Edit;
  readonly last: number;
  readonly total: number | null;
  readonly done: number;
  readonly bands: readonly Band[];
  readonly trial: Trial | null;
  /** The newest calls of the trial, by rule. */
  readonly shadowed: ReadonlyMap<string, readonly Shadowed[]>;
  readonly state: "running" | "ended" | "cancelled";
  readonly failure: string | null;
}

const KEPT = 100;

/** They are kept while the user looks at one of the decisions. */
export const flows = signal<Flows | null>(null);
let running: AbortController | null = null;

whenSignedOut(() => {
  cancelFlows();
  flows.value = null;
});

export function cancelFlows(): void {
  running?.abort();
}

/** The fields of a request that name the rules to decide by. */
export function rulesOf({ constitution, conditions }: Edit): Record<string, string> {
  return { ...(constitution && { constitution }), ...(conditions && { conditions }) };
}

export async function runFlows(last: number, edit: Edit): Promise<void> {
  cancelFlows();
  const own = new AbortController();
  running = own;
  const show = (changes: Partial<Flows>): void => {
    if (running === own) current = flows.value = { ...current, ...changes };
  };
  let current: Flows = { edit, last, total: null, done: 0, bands: [], trial: null, shadowed: new Map(), state: "running", failure: null };
  show({});
  try {
    for await (const { type, data } of events("/api/replay/flows", { ...post({ last, rules: rulesOf(edit) }), signal: own.signal })) {
      if (type === "error") throw new ApiError(0, "", (data as { error: { message: string } }).error.message);
      if (type === "flows") {
        const { items } = data as { items: readonly Item[] };
        show({ done: current.done + items.length, bands: counted(current.bands, items), shadowed: listed(current.shadowed, items) });
      } else if (type === "trial") show({ trial: data as Trial });
      else show({ total: (data as { total: number }).total });
    }
    show({ state: "ended" });
  } catch (error) {
    if (own.signal.aborted) show({ state: "cancelled" });
    else show({ state: "ended", failure: error instanceof ApiError ? error.message : "The replay failed." });
  }
}

function counted(bands: readonly Band[], items: readonly Item[]): readonly Band[] {
  const found = new Map(bands.map((band) => [`${band.before} ${band.after}`, band]));
  for (const item of items) {
    const key = `${item.before} ${item.after}`;
    const band = found.get(key) ?? { before: item.before, after: item.after, count: 0, items: [] };
    found.set(key, { ...band, count: band.count + 1, items: band.items.length < KEPT ? [...band.items, item] : band.items });
  }
  const order = ({ before, after }: Band): number => FATES.indexOf(before) * FATES.length + FATES.indexOf(after);
  return [...found.values()].sort((one, other) => order(one) - order(other));
}

function listed(known: Flows["shadowed"], items: readonly Item[]): Flows["shadowed"] {
  const found = new Map(known);
  for (const { decision_id, message, shadow } of items) {
    for (const { call, verdicts, said } of shadow) {
      for (const [index, [rule, decision]] of verdicts.entries()) {
        const calls = found.get(rule) ?? [];
        const one = { decision_id, message, call, decision, said: said[index] ?? "" };
        if (calls.length < KEPT) found.set(rule, [...calls, one]);
      }
    }
  }
  return found;
}

export function isChange({ before, after }: { before: Fate; after: Fate }): boolean {
  return before !== after;
}
