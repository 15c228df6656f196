// A requested call of a tool, and how it came out.
import type { ToolInvocation } from "../shared/client";
import { words } from "../shared/format";

/** A requested call of a tool. */
export interface ToolCall {
  /** Its number in the turn, from 1. */
  readonly sequence: number;
  readonly title: string;
  readonly arguments: unknown;
  readonly disposition: string;
  /** The gate that stopped it; null if it has passed all of them. */
  readonly gate: string | null;
  readonly success: boolean;
  readonly error_code: string | null;
  /** Why it was not made, or its error. */
  readonly reason: string | null;
  /** What became of a change: done, void or unknown. */
  readonly operation: string | null;
  /** Null if it was not sent. */
  readonly ms: number | null;
  readonly result: unknown;
}

/** A call of a record; `operation` is what became of a change, if that is known. */
export function toolCall(call: ToolInvocation, operation: string | null): ToolCall {
  const disposition = call.disposition ?? "executed";
  return {
    sequence: call.sequence,
    title: words(call.tool_name),
    arguments: call.parameters,
    disposition,
    gate: call.gate ?? null,
    success: call.success,
    error_code: call.error_code ?? null,
    reason: call.error_message ?? null,
    operation: disposition === "executed" ? operation : null,
    ms: disposition === "executed" ? (call.duration_ms ?? 0) : null,
    result: call.result ?? null,
  };
}

/** How a call came out, as one of few: it has one sign and one color everywhere. */
export type Verdict = "done" | "failed" | "refused" | "awaiting" | "unknown" | "skipped" | "running";

export function verdictOf({ disposition, success, operation, error_code: code }: ToolCall): Verdict {
  if (disposition === "executed") {
    // A record alone does not say which calls are changes: a call without an answer is not known.
    const isUnknown = operation ? operation === "unknown" : !success && UNKNOWN_CODES.includes(code ?? "");
    return success || operation === "done" ? "done" : isUnknown ? "unknown" : "failed";
  }
  return disposition === "repeated" ? "skipped" : (disposition as Verdict);
}

const UNKNOWN_CODES = ["TIMEOUT_ERROR", "UNKNOWN_ERROR", "TOOL_REPORTED_FAILURE"];
