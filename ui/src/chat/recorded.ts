// The path and the outcome of a decision, from its record.
import { useEffect, useState } from "preact/hooks";
import { visitsOf } from "../machine/path";
import type { Visit } from "../machine/path";
import type { ChatReply } from "../shared/client";
import { decisionEvents } from "../shared/events";
import type { ServerEvent } from "../shared/events";

export interface Recorded {
  readonly path: readonly Visit[];
  readonly outcome: string | null;
  readonly type: string | null;
}

const UNKNOWN: Recorded = { path: [], outcome: null, type: null };

/** A path with what its reply says; the reply is null while the turn runs. */
export function recordedOf(path: readonly Visit[], reply: ChatReply | null): Recorded {
  return { path, outcome: reply?.decision.outcome_category ?? null, type: reply?.decision.decision_type ?? null };
}

/** The path of a decision; empty until it is known, and for null. */
export function useRecorded(decisionId: string | null): Recorded {
  const [found, setFound] = useState<Recorded>(UNKNOWN);
  useEffect(() => {
    setFound(UNKNOWN);
    if (decisionId === null) return undefined;
    const abort = new AbortController();
    const read = async (): Promise<void> => {
      const received: ServerEvent[] = [];
      for await (const event of decisionEvents(decisionId, abort.signal)) received.push({ ...event, at: null });
      const last = received.at(-1);
      setFound(recordedOf(visitsOf(received), last?.type === "decision" ? (last.data as ChatReply) : null));
    };
    // Without the record, which may have been pruned, the picture stays empty.
    read().catch(() => undefined);
    return () => abort.abort();
  }, [decisionId]);
  return found;
}
