// Replay: a decision made again from its record, and what another constitution would have decided.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, request } from "../shared/client";
import type { ConstitutionText, DecisionDetail, DecisionPage, ExportedItem, LoggedDecision } from "../shared/client";
import { copy, download } from "../shared/download";
import { useLoaded } from "../shared/loading";
import { ErrorState, Loading } from "../shared/states";
import { Visible } from "../shared/text";
import { decisionRow, Outcome, titleOf } from "../decisions/row";
import { auditFile } from "./audit_file";
import { LastDecisions } from "./batch";
import { Comparison } from "./comparison";
import { edited, Editor } from "./editor";
import { replayOne } from "./reports";
import type { Report } from "./reports";

const EDIT_PAUSE_MS = 400;
const RECENT = 12;

/** What is known about the decision that is replayed. */
interface Loaded {
  readonly detail: DecisionDetail;
  readonly record: string;
  readonly constitution: string;
  readonly unchanged: Report;
}

export function ReplayView({ id }: { id: string | null }): VNode {
  return id === null ? <ReplayStart /> : <ReplayOne key={id} id={id} />;
}

function ReplayStart(): VNode {
  const { value, error, retry } = useLoaded(loadStart, []);
  if (error) return <ErrorState error={error} retry={retry} />;
  if (!value) return <Loading what="the constitution" />;
  const [constitution, recent] = value;
  return (
    <main class="replay" tabindex={0}>
      <header class="view-title">
        <h1>Replay</h1>
        <p class="quiet">
          Recorded decisions run again, offline and without effect. Edit the constitution to see what it would have decided.
        </p>
      </header>
      <div class="columns">
        <Editor original={constitution.text} source="in force" />
        <div class="facts">
          <LastDecisions />
          <section class="block">
            <h2>One decision, state by state</h2>
            {recent.length === 0 ? (
              <p class="quiet">No decision yet. Each message in the chat makes one.</p>
            ) : (
              <ol class="rows">
                {recent.map((item) => (
                  <li key={item.decision_id}>{decisionRow(item, { href: `/replay/${item.decision_id}`, brief: true })}</li>
                ))}
              </ol>
            )}
          </section>
        </div>
      </div>
    </main>
  );
}

async function loadStart(signal: AbortSignal): Promise<[ConstitutionText, readonly LoggedDecision[]]> {
  const [constitution, page] = await Promise.all([
    getJson<ConstitutionText>("/api/constitution", signal),
    getJson<DecisionPage>(`/api/decisions?limit=${RECENT}`, signal),
  ]);
  return [constitution, page.items.filter((item) => item.status !== "PENDING")];
}

function ReplayOne({ id }: { id: string }): VNode {
  const { value: loaded, error, retry } = useLoaded((signal) => load(id, signal), [id]);
  const [whatIf, problem] = useWhatIf(id, loaded !== null);

  if (error) return <ErrorState error={error} retry={retry} />;
  if (!loaded) return <Loading what="the replay" />;
  return (
    <main class="replay" tabindex={0}>
      <header class="view-title">
        <a class="back" href="/replay">
          Replay
        </a>
        <h1>
          <Visible text={titleOf(loaded.detail)} />
        </h1>
        <Outcome outcome={loaded.detail.outcome_category} type={loaded.detail.decision_type} />
        <Actions loaded={loaded} whatIf={whatIf} />
      </header>
      <div class="columns">
        <div class="facts">
          <Editor original={loaded.constitution} source="as recorded" />
          <LastDecisions />
        </div>
        <div class="facts">
          {problem && (
            <p class="failure" role="alert">
              <Visible text={problem} />
            </p>
          )}
          <Comparison unchanged={loaded.unchanged} whatIf={whatIf} />
        </div>
      </div>
    </main>
  );
}

async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const url = `/api/decisions/${encodeURIComponent(id)}`;
  const [detail, record] = await Promise.all([
    getJson<DecisionDetail>(url, signal),
    request(`${url}/record`, { signal }).then((response) => response.text()),
  ]);
  const texts = JSON.parse(record) as readonly ExportedItem[];
  const constitution = texts.find((item) => item.type === "blob" && item.digest === detail.constitution);
  const unchanged = await replayOne(id, null, signal);
  return { detail, record, constitution: constitution?.type === "blob" ? constitution.text : "", unchanged };
}

/** The replay under the edited constitution, and why there is none; made anew a moment after each edit. */
function useWhatIf(id: string, ready: boolean): [Report | null, string | null] {
  const [whatIf, setWhatIf] = useState<Report | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const policy = edited.value;
  useEffect(() => {
    setProblem(null);
    if (!ready || policy === null) {
      setWhatIf(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      replayOne(id, policy, abort.signal)
        .then(setWhatIf)
        .catch((failure: unknown) => {
          if (!(failure instanceof ApiError)) return;
          setWhatIf(null);
          setProblem(failure.message);
        });
    }, EDIT_PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [id, ready, policy]);
  return [whatIf, problem];
}

function Actions({ loaded, whatIf }: { loaded: Loaded; whatIf: Report | null }): VNode {
  const [said, setSaid] = useState("");
  const { detail } = loaded;
  const name = `decision-${detail.decision_id}`;
  const copyTestCase = async (): Promise<void> => {
    const response = await request(`/api/decisions/${detail.decision_id}/fixture`, {});
    setSaid((await copy(await response.text(), `${name}.yaml`)) ? "Copied." : "Saved as a file.");
  };
  return (
    <div class="actions">
      <span class="quiet" role="status">
        {said}
      </span>
      <a href={`/decisions/${detail.decision_id}`}>Decision</a>
      <button type="button" onClick={() => void copyTestCase().catch((error: Error) => setSaid(error.message))}>
        Copy as test case
      </button>
      <button type="button" onClick={() => download(`${name}.json`, "application/json", loaded.record)}>
        Export
      </button>
      <button
        type="button"
        onClick={() => download(`${name}.html`, "text/html", auditFile({ ...loaded, whatIf, edited: edited.value }))}
      >
        Save for an auditor
      </button>
    </div>
  );
}
