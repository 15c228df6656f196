// The path and the outcome of a decision, from its record.
import { useEffect, useState } from "preact/hooks";
import { topology } from "../machine/machine";
import { visitsOfRecord } from "../machine/path";
import type { Visit } from "../machine/path";
import { getJson } from "../shared/client";
import type { ChatReply, DecisionDetail } from "../shared/client";

/** The end of a decision; its words once its row is known. */
interface Ending {
  readonly outcome_category: string;
  readonly ending?: string;
}

export interface Recorded {
  readonly path: readonly Visit[];
  /** Null while the turn runs. */
  readonly ending: Ending | null;
}

const UNKNOWN: Recorded = { path: [], ending: null };

/** A path with what its reply says; the reply is null while the turn runs. */
export function recordedOf(path: readonly Visit[], reply: ChatReply | null): Recorded {
  if (!reply) return { path, ending: null };
  return { path, ending: { outcome_category: reply.decision.outcome_category ?? "" } };
}

/** The path of a closed decision; until it is known, and for null, the path is empty. */
export function useRecorded(decisionId: string | null): Recorded {
  const [found, setFound] = useState<Recorded>(UNKNOWN);
  useEffect(() => {
    setFound(UNKNOWN);
    if (decisionId === null) return undefined;
    const abort = new AbortController();
    getJson<DecisionDetail>(`/api/decisions/${encodeURIComponent(decisionId)}`, abort.signal).then(
      (detail) => {
        const path = visitsOfRecord(detail, topology.value?.max_iterations ?? null);
        // The row of a turn that still runs has no path yet.
        if (detail.result) setFound({ path, ending: detail });
      },
      // Without the record, which may have been pruned, the picture stays empty.
      () => undefined,
    );
    return () => abort.abort();
  }, [decisionId]);
  return found;
}
