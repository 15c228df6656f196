// The other decisions about the same question: the one that asked it, and the one that followed its answer.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { getJson } from "../shared/client";
import type { DecisionDetail, DecisionPage, LoggedDecision } from "../shared/client";
import { decisionRow } from "./row";

export function Related({ detail: { decision_id: id, question } }: { detail: DecisionDetail }): VNode | null {
  const [found, setFound] = useState<readonly LoggedDecision[]>([]);
  useEffect(() => {
    setFound([]);
    if (question === null) return undefined;
    const abort = new AbortController();
    getJson<DecisionPage>(`/api/decisions?question=${encodeURIComponent(question)}`, abort.signal).then(
      ({ items }) => setFound(items.filter((item) => item.decision_id !== id)),
      // It is an addition: without it the decision is still complete.
      () => undefined,
    );
    return () => abort.abort();
  }, [id, question]);
  if (found.length === 0) return null;
  return (
    <section class="block related">
      <h2>About the same question</h2>
      <div class="rows">{found.map((item) => decisionRow(item, { brief: true }))}</div>
    </section>
  );
}
