// The replay of one decision: what the server streams about it.
import { ApiError, post } from "../shared/client";
import type { AgentDecision, LoggedDecision } from "../shared/client";
import { events } from "../shared/events";
import { rulesOf } from "./flows";
import type { Edit } from "./texts";

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

/** How a decision came out, in the words of the server: there, if there is a decision. */
export interface InWords {
  readonly type_words: string;
  readonly ending: string;
  readonly ending_kind: LoggedDecision["ending_kind"];
}

/** The result of running one decision again. */
export interface Report extends Partial<InWords> {
  readonly decision_id: string;
  readonly message: string;
  readonly recorded: (Partial<InWords> & { readonly states: readonly string[]; readonly decision: AgentDecision }) | null;
  readonly identical: boolean;
  /** Why the replay ended early, if it did. */
  readonly departure: string | null;
  readonly differences: readonly Difference[];
  /** The calls that are refused now. */
  readonly refused: readonly { readonly tool_name: string; readonly rule: string }[];
  readonly decision: AgentDecision | null;
  readonly steps: readonly Step[];
}

/** Run one decision again by the rules of `edit`, or as it was recorded if there are none. */
export async function replayOne(decisionId: string, edit: Edit, abort: AbortSignal): Promise<Report> {
  for await (const event of events("/api/replay", { ...post({ decision_id: decisionId, rules: rulesOf(edit) }), signal: abort })) {
    if (event.type === "error") {
      const { error } = event.data as { error: { code: string; message: string } };
      throw new ApiError(0, error.code, error.message);
    }
    if (event.type === "report") return event.data as Report;
  }
  throw new ApiError(0, "INCOMPLETE", "The replay ended before its result.");
}
