// The last decisions run again: progress, and the decisions that come out differently.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import type { AgentDecision } from "../shared/client";
import { words } from "../shared/format";
import { Visible } from "../shared/text";
import { edited } from "./editor";
import { batch, cancelBatch, replayLast } from "./reports";
import type { Batch, Report } from "./reports";

const NUMBERS = [20, 50, 100, 500];

export function LastDecisions(): VNode {
  const [last, setLast] = useState(50);
  const current = batch.value;
  const running = current?.state === "running";
  return (
    <section class="block batch">
      <div class="batch-start">
        <label>
          Try it on the last
          <select value={last} onChange={(event) => setLast(Number(event.currentTarget.value))}>
            {NUMBERS.map((number) => (
              <option key={number} value={number}>
                {number} decisions
              </option>
            ))}
          </select>
        </label>
        {running ? (
          <button type="button" onClick={cancelBatch}>
            Cancel
          </button>
        ) : (
          <button type="button" onClick={() => void replayLast(last, edited.value)}>
            Run
          </button>
        )}
      </div>
      {current && <Results current={current} />}
    </section>
  );
}

function Results({ current }: { current: Batch }): VNode {
  const { total, done, different, state } = current;
  const same = done - different.length;
  return (
    <div class="batch-results">
      {state === "running" && <progress max={total ?? 1} value={done} aria-label="Replayed decisions" />}
      {current.failure && <p class="failure">{current.failure}</p>}
      <p role="status">
        {state === "running" && `${done} of ${total ?? "…"} · `}
        {state === "cancelled" && `Cancelled after ${done} of ${total ?? "…"} · `}
        <strong>{different.length} different</strong> · {same} the same
        {state === "ended" && current.policy !== edited.value && " (the constitution has been edited since)"}
      </p>
      {different.length > 0 && (
        <ol class="rows">
          {different.map((report) => (
            <Row key={report.decision_id} report={report} />
          ))}
        </ol>
      )}
    </div>
  );
}

function Row({ report }: { report: Report }): VNode {
  return (
    <li>
      <a class="row what-if" href={`/replay/${report.decision_id}`}>
        <span class="row-text">
          <Visible text={report.message} />
        </span>
        <Change report={report} />
      </a>
    </li>
  );
}

/** The calls that are refused now; else the decision types, or the outcomes if the types are the same. */
function Change({ report }: { report: Report }): VNode {
  const [before, after] = [report.recorded?.decision ?? null, report.decision];
  const refused = report.refused.map((call) => call.tool_name).join(", ");
  const same = before?.decision_type === after?.decision_type;
  const shown = (one: AgentDecision | null): string => (same ? one?.outcome_category : one?.decision_type) ?? "unreadable";
  return (
    <>
      <span class="outcome">{words(shown(before))}</span>
      <span class="visually-hidden">becomes</span>
      <span aria-hidden="true">→</span>
      {refused ? (
        <span class="verdict refused">
          refused: <Visible text={refused} />
        </span>
      ) : (
        <span class="outcome pending">{after ? words(shown(after)) : "ends early"}</span>
      )}
    </>
  );
}
