// What went wrong in a turn that failed, and sending its message again.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { getJson } from "../shared/client";
import type { DecisionDetail } from "../shared/client";
import { visible } from "../shared/visible";

interface Props {
  readonly decisionId: string;
  /** Null if sending the message again would not help. */
  readonly onRetry: (() => void) | null;
}

export function Cause({ decisionId, onRetry }: Props): VNode {
  const [findings, setFindings] = useState<readonly string[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    getJson<DecisionDetail>(`/api/decisions/${decisionId}`, abort.signal).then(
      (detail) => setFindings(detail.findings),
      () => undefined,
    );
    return () => abort.abort();
  }, [decisionId]);
  return (
    <div class="failure cause" role="status">
      {findings.map((finding) => (
        <p key={finding}>{visible(finding)}</p>
      ))}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
