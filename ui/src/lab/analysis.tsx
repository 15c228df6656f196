// What the tried rules newly permit, for every possible call, and which promises hold: `policy diff` and `policy prove`.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, post } from "../shared/client";
import { events } from "../shared/events";
import { Visible } from "../shared/visible";
import type { Edit } from "./texts";

interface AnalysisResult {
  readonly name: string;
  readonly answer: string;
  readonly why?: string;
  /** False if the analysis does not know: a change that was not compared, or an example that the guard did not confirm. */
  readonly certain: boolean;
  /** True if something is newly possible, or may be. */
  readonly may_loosen: boolean;
  /** The smallest example, as text. */
  readonly call: string;
  readonly example?: { readonly guard: string; readonly confirmed: boolean };
}

interface Report {
  readonly changes: readonly AnalysisResult[];
  readonly promises: readonly AnalysisResult[] | null;
}

const PAUSE_MS = 500;

/** The report about an edit, and why there is none; null while it is computed. */
function useAnalysis(edit: Edit | null): [Report | null, string | null] {
  const [report, setReport] = useState<Report | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    setReport(null);
    setFailure(null);
    if (!edit) return undefined;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      ask(edit, abort.signal)
        .then(setReport)
        .catch((error: unknown) => error instanceof ApiError && setFailure(error.message));
    }, PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [edit]);
  return [report, failure];
}

async function ask(edit: Edit, signal: AbortSignal): Promise<Report> {
  for await (const { type, data } of events("/api/rules/diff", { ...post(edit), signal })) {
    if (type === "error") throw new ApiError(0, "", (data as { error: { message: string } }).error.message);
    return data as Report;
  }
  throw new ApiError(0, "INCOMPLETE", "The analysis ended before its result.");
}

export function Analysis({ edit, hasPromises }: { edit: Edit | null; hasPromises: boolean }): VNode {
  const isAsked = edit !== null && (Object.keys(edit).length > 0 || hasPromises);
  const [report, failure] = useAnalysis(isAsked ? edit : null);
  return (
    <section class="block panel-block" aria-label="Every possible call">
      <h2>Every possible call</h2>
      {!isAsked ? (
        <p class="quiet">When a rule has changed, this says for every possible call what becomes possible, and what does not any more.</p>
      ) : failure ? (
        <p class="quiet" role="status">
          {failure}
        </p>
      ) : report ? (
        <Findings report={report} />
      ) : (
        <p class="quiet loading" role="status">
          Analyzing…
        </p>
      )}
    </section>
  );
}

function Findings({ report: { changes, promises } }: { report: Report }): VNode {
  const looser = changes.some(({ may_loosen, certain }) => may_loosen && certain);
  const unknown = changes.some(({ may_loosen }) => may_loosen);
  return (
    <>
      <p class={`verdict-line ${looser || unknown ? "different" : "same"}`} role="status">
        {looser ? "More becomes possible." : unknown ? "Not everything was compared, so more may become possible." : "Nothing else becomes possible."}
      </p>
      {changes.length > 0 && (
        <ul class="possible">
          {changes.map((one) => (
            <Line key={`${one.answer} ${one.name} ${one.why}`} result={one} />
          ))}
        </ul>
      )}
      <h3>Promises</h3>
      {promises === null || promises.length === 0 ? (
        <p class="quiet">
          None. A promise is a <code>forbid</code> condition that no permitted call may match: write one in the text <em>Promises</em>.
        </p>
      ) : (
        <ul class="possible">
          {promises.map((one) => (
            <Line key={one.name} result={one} />
          ))}
        </ul>
      )}
    </>
  );
}

const MARKS: Readonly<Record<string, string>> = { proved: "holds", fails: "fails" };

function Line({ result }: { result: AnalysisResult }): VNode {
  const { name, answer, call, why, example, certain, may_loosen } = result;
  const kind = !certain ? "unknown" : may_loosen || answer === "fails" ? "looser" : "tighter";
  return (
    <li class={kind}>
      <span>{MARKS[answer] ?? answer}</span> {call && answer !== "fails" ? null : <Visible text={name} />}
      {call && (
        <code>
          <Visible text={call} />
        </code>
      )}
      {(why || example) && (
        <span class="quiet">
          <Visible text={why ?? (example?.confirmed ? `guard: ${example.guard}` : `possible, not confirmed by the guard (${example?.guard})`)} />
        </span>
      )}
    </li>
  );
}
