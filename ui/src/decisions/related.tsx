// The question that a decision answers, or the answer that a question got: they are different decisions of one conversation.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { getJson } from "../shared/client";
import type { DecisionDetail, DecisionPage, LoggedDecision } from "../shared/client";
import { decisionRow } from "./row";

const ANSWERS = ["EXECUTE_PENDING", "CANCEL_PENDING"];
const QUESTION = "REQUEST_CONFIRMATION";

export function Related({ detail }: { detail: DecisionDetail }): VNode | null {
  const [found, setFound] = useState<LoggedDecision | null>(null);
  const asks = detail.decision_type === QUESTION;
  const answers = ANSWERS.includes(detail.decision_type);
  useEffect(() => {
    setFound(null);
    if (!asks && !answers) return undefined;
    const abort = new AbortController();
    const wanted = new URLSearchParams({ conversation_id: detail.conversation_id, user_id: detail.user_id, limit: "200" });
    wanted.set(asks ? "since" : "until", detail.created_at);
    getJson<DecisionPage>(`/api/decisions?${wanted}`, abort.signal)
      .then(({ items }) => {
        const others = items.filter((item) => item.decision_id !== detail.decision_id);
        // Newest first: the answer is the next decision, the question the latest one before.
        setFound((asks ? others.at(-1) : others.find((item) => item.decision_type === QUESTION)) ?? null);
      })
      // It is an addition: without it the decision is still complete.
      .catch(() => undefined);
    return () => abort.abort();
  }, [detail.decision_id, detail.decision_type]);
  if (!found) return null;
  return (
    <section class="block related">
      <h2>{asks ? "The next message" : "The question"}</h2>
      <div class="rows">{decisionRow(found, { brief: true })}</div>
    </section>
  );
}
