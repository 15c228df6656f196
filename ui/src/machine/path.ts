// The path of a turn through the state machine, from its events.
import type { ServerEvent } from "../shared/events";

export interface ModelCall {
  readonly kind: "model_call";
  readonly finish_reason: string;
  readonly error: string | null;
  readonly calls: readonly string[];
}

export interface ToolCallEvent {
  readonly kind: "tool_call";
  readonly sequence: number;
  readonly title: string;
  readonly disposition: string;
  readonly success: boolean;
  readonly error_code: string | null;
}

export interface Receipt {
  readonly kind: "receipt";
  readonly sequence: number;
  readonly text: string;
}

export type Action = ModelCall | ToolCallEvent | Receipt;

/** One visit of a state, with what was done there. */
export interface Visit {
  readonly state: string;
  readonly iteration: number;
  readonly cap: number;
  readonly actions: readonly Action[];
  /** Milliseconds in the state as seen by this page; null if it was read from the record or is still running. */
  readonly ms: number | null;
}

interface StateData {
  readonly state: string;
  readonly iteration: number;
  readonly max_iterations: number;
}

/** The visits of a turn, in order; an event that follows a state belongs to its visit. */
export function visitsOf(events: readonly ServerEvent[]): Visit[] {
  const visits: { state: string; iteration: number; cap: number; actions: Action[]; ms: number | null; at: number | null }[] = [];
  for (const event of events) {
    const last = visits.at(-1);
    if (event.type === "state" || event.type === "decision") {
      if (last && last.at !== null && event.at !== null) last.ms = event.at - last.at;
    }
    if (event.type === "state") {
      const data = event.data as StateData;
      const { state, iteration, max_iterations: cap } = data;
      visits.push({ state, iteration, cap, actions: [], ms: null, at: event.at });
    } else if (last && (event.type === "model_call" || event.type === "tool_call" || event.type === "receipt")) {
      last.actions.push({ kind: event.type, ...(event.data as object) } as Action);
    }
  }
  return visits;
}

/** How a turn came out: `cap` if its rounds were used up, `refused` if code or the model refused something. */
export type Ending = "good" | "failed" | "cap" | "refused";

/** The ending of a turn from its path, and its outcome once that is known. */
export function endingOf(path: readonly Visit[], outcome: string | null): Ending {
  const passed = (state: string): boolean => path.some((visit) => visit.state === state);
  if (passed("TIMEOUT_RESPONSE")) return "cap";
  if (passed("ERROR_RESPONSE") || outcome?.startsWith("ERROR:")) return "failed";
  const isRefused = path.some(({ actions }) => actions.some((one) => one.kind === "tool_call" && one.disposition === "refused"));
  return isRefused || outcome?.startsWith("REFUSAL:") ? "refused" : "good";
}
