// The verification of the record: progress, and every difference from what was written.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { ApiError } from "../shared/client";
import { events } from "../shared/events";
import { counted } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { Visible } from "../shared/visible";

interface Violation {
  readonly kind: string;
  readonly text: string;
  readonly decision_id: string | null;
}

interface Result {
  readonly intact: boolean;
  readonly records: number;
  readonly size: number;
  readonly removed: number;
  readonly waiting: number;
  readonly open: number;
  readonly anchors: readonly { readonly name: string; readonly size: number; readonly at: string | null }[];
  readonly count: number;
  readonly violations: readonly Violation[];
}

interface State {
  readonly progress: { readonly checked: number; readonly total: number } | null;
  readonly running: boolean;
  readonly result: Result | null;
  readonly problem: string | null;
}

const IDLE: State = { progress: null, running: false, result: null, problem: null };
/** It goes on while another view is shown. */
const state = signal<State>(IDLE);
let abort: AbortController | null = null;

async function verify(): Promise<void> {
  const own = new AbortController();
  abort = own;
  state.value = { ...IDLE, running: true };
  try {
    for await (const event of events("/api/verify", { signal: own.signal })) {
      if (event.type === "progress") state.value = { ...state.value, progress: event.data as State["progress"] };
      if (event.type === "report") state.value = { ...IDLE, result: event.data as Result };
      if (event.type === "error") state.value = { ...IDLE, problem: (event.data as { error: { message: string } }).error.message };
    }
  } catch (error) {
    state.value = { ...IDLE, problem: own.signal.aborted ? "Cancelled." : error instanceof ApiError ? error.message : "It failed." };
  }
}

export function Verification(): VNode {
  const { progress, running, result, problem } = state.value;
  return (
    <section class="block panel-block" aria-label="Verification">
      <div class="panel-title">
        <h2>Verification</h2>
        {running ? (
          <button type="button" onClick={() => abort?.abort()}>
            Cancel
          </button>
        ) : (
          <button type="button" onClick={() => void verify()}>
            Verify the record
          </button>
        )}
      </div>
      {running && (
        <>
          <progress max={progress?.total ?? 1} value={progress?.checked ?? 0} aria-label="Verified records" />
          <p class="quiet" role="status">
            {progress ? `${progress.checked} of ${progress.total} records` : "Starting…"}
          </p>
        </>
      )}
      {problem && (
        <p class="quiet" role="status">
          {problem}
        </p>
      )}
      {result ? (
        <Outcome result={result} />
      ) : (
        !running &&
        !problem && <p class="quiet">Every row is compared with its record, and every record with the signed tree.</p>
      )}
    </section>
  );
}

function anchored({ anchors }: Result): string {
  const witness = anchors.find((anchor) => anchor.at !== null);
  if (!witness?.at) return "No witness: an administrator could have removed the end, or rolled the database back.";
  return `Witnessed by ${witness.name}: tree size ${witness.size} at ${witness.at}.`;
}

function Outcome({ result }: { result: Result }): VNode {
  return (
    <>
      <p class={`verdict-line ${result.intact ? "same" : "different"}`} role="status">
        {result.intact ? "Intact" : counted(result.count, "violation")}: {counted(result.records, "record")},{" "}
        <span title={WORDS["Tree size"]}>tree size {result.size}</span>
        {result.removed > 0 && `, ${result.removed} removed on purpose`}
        {result.waiting > 0 && `, ${counted(result.waiting, "row")} not in the tree yet`}
        {result.open > 0 && `, ${counted(result.open, "turn")} still open`}.
      </p>
      <p class="quiet">{anchored(result)}</p>
      <ul class="findings">
        {result.violations.map((violation, index) => (
          <li key={index}>
            {violation.decision_id ? (
              <a href={addressOf(`/decisions/${violation.decision_id}`)}>
                <Visible text={violation.text} />
              </a>
            ) : (
              <Visible text={violation.text} />
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
