// One decision made again from its record, and what the tried rules would have decided.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { ApiError, getJson, post, request } from "../shared/client";
import type { DecisionDetail } from "../shared/client";
import { copy, download } from "../shared/download";
import { useLoaded } from "../shared/loading";
import { ErrorState, Loading } from "../shared/states";
import { Visible } from "../shared/visible";
import { undoingOf } from "../machine/undo";
import { rulesOf } from "./flows";
import { Columns } from "./columns";
import { tried } from "./texts";
import { Outcome } from "../decisions/row";
import { Comparison } from "./comparison";
import { replayOne } from "./reports";
import type { Report } from "./reports";

/** What is known about the decision that is replayed. */
interface Loaded {
  readonly detail: DecisionDetail;
  readonly record: string;
  readonly unchanged: Report;
}

export function OneDecision({ id, rules }: { id: string; rules: VNode }): VNode {
  const { value: loaded, error, retry } = useLoaded((signal) => load(id, signal), [id]);
  const [whatIf, problem] = useWhatIf(id, loaded !== null);

  if (error) return <ErrorState error={error} retry={retry} />;
  if (!loaded) return <Loading what="the replay" />;
  return (
    <main class="replay lab" tabindex={0}>
      <header class="view-title">
        <a class="back" href={addressOf("/lab")}>
          Policy lab
        </a>
        <h1>
          <Visible text={loaded.detail.title} />
        </h1>
        <Outcome {...loaded.detail} />
        <Actions loaded={loaded} />
      </header>
      <Columns rules={rules}>
        {problem && (
          <p class="failure" role="alert">
            <Visible text={problem} />
          </p>
        )}
        <Comparison unchanged={loaded.unchanged} whatIf={whatIf} undoing={undoingOf(loaded.detail)} />
      </Columns>
    </main>
  );
}

async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const url = `/api/decisions/${encodeURIComponent(id)}`;
  const [detail, record] = await Promise.all([
    getJson<DecisionDetail>(url, signal),
    request(`${url}/record`, { signal }).then((response) => response.text()),
  ]);
  return { detail, record, unchanged: await replayOne(id, {}, signal) };
}

/** The replay by the tried rules, and why there is none. */
function useWhatIf(id: string, ready: boolean): [Report | null, string | null] {
  const [whatIf, setWhatIf] = useState<Report | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const edit = tried.value;
  useEffect(() => {
    setProblem(null);
    if (!ready || !edit || Object.keys(rulesOf(edit)).length === 0) {
      setWhatIf(null);
      return undefined;
    }
    const abort = new AbortController();
    replayOne(id, edit, abort.signal)
      .then(setWhatIf)
      .catch((failure: unknown) => {
        if (!(failure instanceof ApiError)) return;
        setWhatIf(null);
        setProblem(failure.message);
      });
    return () => abort.abort();
  }, [id, ready, edit]);
  return [whatIf, problem];
}

function Actions({ loaded }: { loaded: Loaded }): VNode {
  const [said, setSaid] = useState("");
  const { detail } = loaded;
  const name = `decision-${detail.decision_id}`;
  const copyTestCase = async (): Promise<void> => {
    const response = await request(`/api/decisions/${detail.decision_id}/fixture`, {});
    setSaid((await copy(await response.text(), `${name}.yaml`)) ? "Copied." : "Saved as a file.");
  };
  const saveForAuditor = async (): Promise<void> => {
    const response = await request(`/api/decisions/${detail.decision_id}/proof`, post(rulesOf(tried.value ?? {})));
    download(`${name}.html`, "text/html", await response.text());
  };
  return (
    <div class="actions">
      <span class="quiet" role="status">
        {said}
      </span>
      <a href={addressOf(`/decisions/${detail.decision_id}`)}>Decision</a>
      <button type="button" onClick={() => void copyTestCase().catch((error: Error) => setSaid(error.message))}>
        Copy as test case
      </button>
      <button type="button" onClick={() => download(`${name}.json`, "application/json", loaded.record)}>
        Export
      </button>
      <button type="button" onClick={() => void saveForAuditor().catch((error: Error) => setSaid(error.message))}>
        Save for an auditor
      </button>
    </div>
  );
}
