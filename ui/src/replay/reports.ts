// Replays: what the server streams about them, and the ones that run in this tab.
import { signal } from "@preact/signals";
import { ApiError, post } from "../shared/client";
import type { AgentDecision } from "../shared/client";
import { events } from "../shared/events";

export interface Step {
  readonly state: string;
  readonly outcome: string;
  /** The number of calls that were refused in it. */
  readonly refused: number;
  /** What the state changed, one line for each field. */
  readonly changes: Readonly<Record<string, string>>;
}

export interface Difference {
  readonly what: string;
  readonly recorded: string;
  readonly replayed: string;
}

/** The result of running one decision again. */
export interface Report {
  readonly decision_id: string;
  readonly message: string;
  readonly recorded: { readonly states: readonly string[]; readonly decision: AgentDecision } | null;
  readonly identical: boolean;
  /** Why the replay ended early, if it did. */
  readonly departure: string | null;
  readonly differences: readonly Difference[];
  /** The calls that are refused now. */
  readonly refused: readonly { readonly tool_name: string; readonly rule: string }[];
  readonly decision: AgentDecision | null;
  readonly steps: readonly Step[];
}

interface Asked {
  readonly decision_id?: string;
  readonly last?: number;
  readonly policy?: string;
}

type Streamed = { readonly total: number } | Report;

async function* stream(asked: Asked, abort: AbortSignal): AsyncGenerator<Streamed> {
  for await (const event of events("/api/replay", { ...post(asked), signal: abort })) {
    if (event.type === "error") {
      const { error } = event.data as { error: { code: string; message: string } };
      throw new ApiError(0, error.code, error.message);
    }
    if (event.type !== "end") yield event.data as Streamed;
  }
}

/** Run one decision again; with `policy`, by another constitution. */
export async function replayOne(decisionId: string, policy: string | null, abort: AbortSignal): Promise<Report> {
  for await (const one of stream({ decision_id: decisionId, ...(policy === null ? {} : { policy }) }, abort)) {
    if ("steps" in one) return one;
  }
  throw new ApiError(0, "INCOMPLETE", "The replay ended before its result.");
}

/** A replay of many decisions: its progress and the decisions that came out differently. */
export interface Batch {
  readonly policy: string | null;
  readonly total: number | null;
  readonly done: number;
  readonly different: readonly Report[];
  readonly state: "running" | "ended" | "cancelled";
  readonly failure: string | null;
}

/** It is kept while the user looks at one of its decisions. */
export const batch = signal<Batch | null>(null);
let running: AbortController | null = null;

export function cancelBatch(): void {
  running?.abort();
}

/** Run the last decisions again and collect those that come out differently. */
export async function replayLast(last: number, policy: string | null): Promise<void> {
  cancelBatch();
  const own = new AbortController();
  running = own;
  let current: Batch = { policy, total: null, done: 0, different: [], state: "running", failure: null };
  const show = (changes: Partial<Batch>): void => {
    current = { ...current, ...changes };
    if (running === own) batch.value = current;
  };
  show({});
  try {
    for await (const one of stream({ last, ...(policy === null ? {} : { policy }) }, own.signal)) {
      if (!("steps" in one)) show({ total: one.total });
      else show({ done: current.done + 1, different: one.identical ? current.different : [...current.different, one] });
    }
    show({ state: "ended" });
  } catch (error) {
    if (own.signal.aborted) show({ state: "cancelled" });
    else show({ state: "ended", failure: error instanceof ApiError ? error.message : "The replay failed." });
  }
}
