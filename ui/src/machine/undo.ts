// What a decision undoes of an earlier one: asked about, done, or not done. The record of the decision has all of it.
import type { AgentDecision, PendingAction, ToolInvocation, UndoneCall, UndoneDecision } from "../shared/client";
import { textOf } from "../shared/json";
import { toolCall, verdictOf } from "./calls";
import type { ToolCall } from "./calls";

/** What the record of a closed decision has about an undo. */
export interface RecordedUndo {
  readonly undoes?: UndoneDecision | null;
  /** The action that was confirmed or declined in it. */
  readonly answered: PendingAction | null;
  readonly result: AgentDecision | null;
  readonly tool_invocations: readonly ToolInvocation[];
  /** The states of the changes, by the sequence of the call; a record alone does not name the changes. */
  readonly operations?: Readonly<Record<string, string>>;
}

export interface UndoingCall {
  readonly undone: UndoneCall;
  /** The call that undoes it, in words. */
  readonly text: string;
  /** Null if it was not judged, as after a no. */
  readonly made: ToolCall | null;
}

export interface Undoing {
  /** What became of it, before the id of the decision: "Undoes decision". */
  readonly title: string;
  readonly decision: string;
  readonly calls: readonly UndoingCall[];
  /** The sentences about the changes that stay. */
  readonly stays: readonly string[];
}

/** What a decision undoes; null if it is no undo. */
export function undoingOf({ undoes, answered, result, tool_invocations: made, operations }: RecordedUndo): Undoing | null {
  const action = answered ?? result?.pending_action ?? result?.approval?.action ?? null;
  const asked = action?.calls?.length ? action.calls : action ? [action] : [];
  const undone = undoes?.calls ?? asked.flatMap((call) => call.undoes ?? []);
  const [first] = undone;
  if (!first) return null;
  const calls = undone.map((one, index): UndoingCall => {
    const invocation = made.find(({ sequence }) => sequence === index + 1);
    const call = invocation ? toolCall(invocation, operations?.[invocation.sequence] ?? null) : null;
    return { undone: one, text: asked[index]?.description ?? (call ? `${call.title}: ${textOf(call.arguments)}` : ""), made: call };
  });
  const stays = undoes ? (undoes.left_out ?? []) : [action?.changed_before ?? ""];
  return { title: titleOf(calls, result), decision: first.decision_id, calls, stays: stays.filter(Boolean) };
}

function titleOf(calls: readonly UndoingCall[], result: AgentDecision | null): string {
  const verdicts = calls.map(({ made }) => made && verdictOf(made));
  if (verdicts.includes("done")) return "Undoes decision";
  if (verdicts.includes("unknown")) return "May have undone decision";
  return result?.decision_type === "REQUEST_CONFIRMATION" ? "Asks to undo decision" : "Does not undo decision";
}
