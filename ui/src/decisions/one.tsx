// One decision: why it came out as it did, and its path with every call.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { isOperator } from "../shared/about";
import { addressOf } from "../shared/address";
import { hasTasks } from "../shared/about";
import { byline, Reply } from "../shared/authored";
import { ApiError, getJson } from "../shared/client";
import type { DecisionDetail } from "../shared/client";
import { CodeLines } from "../shared/code_lines";
import { decisionEvents } from "../shared/events";
import type { ServerEvent } from "../shared/events";
import { counted, duration, fullTime, words } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { ErrorState, Loading } from "../shared/states";
import { Visible } from "../shared/visible";
import { loadTopology, topology } from "../machine/machine";
import { visitsOf, visitsOfRecord } from "../machine/path";
import { undoingOf } from "../machine/undo";
import type { Undoing } from "../machine/undo";
import { Undoes } from "../machine/undoes";
import { CopyButtons } from "./copying";
import { Related } from "./related";
import { listAddress } from "./list";
import { Outcome } from "./row";
import { Steps } from "./steps";

export function DecisionView({ id }: { id: string }): VNode {
  const [detail, setDetail] = useState<DecisionDetail | null>(null);
  // Those of a running turn arrive one by one.
  const [heard, setHeard] = useState<readonly ServerEvent[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    const abort = new AbortController();
    const url = `/api/decisions/${encodeURIComponent(id)}`;
    const load = async (): Promise<void> => {
      setDetail(null);
      setHeard([]);
      setError(null);
      await loadTopology();
      const found = await getJson<DecisionDetail>(url, abort.signal);
      setDetail(found);
      if (found.status !== "PENDING") return;
      const received: ServerEvent[] = [];
      for await (const event of decisionEvents(id, abort.signal)) {
        received.push(event);
        setHeard([...received]);
      }
      // The stream of a running turn ends with it: then the row is complete.
      setDetail(await getJson<DecisionDetail>(url, abort.signal));
    };
    load().catch((failure: unknown) => {
      if (failure instanceof ApiError) setError(failure);
    });
    return () => abort.abort();
  }, [id, attempt]);

  if (error && !detail) return <ErrorState error={error} retry={() => setAttempt(attempt + 1)} />;
  if (!detail) return <Loading what="the decision" />;
  const isRunning = detail.status === "PENDING";
  const undoing = undoingOf(detail);
  return (
    <main class="decision" tabindex={0}>
      <header class="view-title">
        <a class="back" href={addressOf(listAddress())}>
          Decisions
        </a>
        <h1>
          <Visible text={detail.title} />
        </h1>
        <a href={addressOf("/help")} class="explained">
          <Outcome {...detail} />
        </a>
        {detail.refused_calls > 0 && <span class="verdict refused">{counted(detail.refused_calls, "call")} refused</span>}
        {detail.status !== "PENDING" && isOperator() && (
          <a class="button" href={addressOf(`/lab/${detail.decision_id}`)}>
            Try other rules
          </a>
        )}
      </header>
      <div class="columns">
        <Steps
          visits={isRunning ? visitsOf(heard) : visitsOfRecord(detail, topology.value?.max_iterations ?? null)}
          outcome={detail.outcome_category}
          decisionId={isRunning ? null : id}
          nothing={withoutSteps(detail)}
        />
        <div class="facts">
          <Answer detail={detail} />
          {undoing && <Undoes undoing={undoing} linked />}
          <Related detail={detail} />
          <Findings found={detail.findings} />
          {/* The user of the decision learns nothing of it. */}
          {isOperator() && <InShadow detail={detail} />}
          <Facts detail={detail} undoing={undoing} />
          <CopyButtons detail={detail} />
        </div>
      </div>
    </main>
  );
}

/** Why no step is shown. */
function withoutSteps(detail: DecisionDetail): string {
  if (detail.status === "PENDING") return "The turn is running. Its steps appear here as they are made.";
  return "The message was refused before the first state.";
}

function Answer({ detail }: { detail: DecisionDetail }): VNode | null {
  const { result } = detail;
  if (!result) return null;
  return (
    <section class="block">
      <h2>Reply</h2>
      <div class="content">
        <Reply text={detail.response_text ?? result.response_text ?? result.clarification_question ?? ""} parts={result.authors?.reply} />
      </div>
      <p class="quiet">{byline(result.authors)}</p>
      <CodeLines effects={result.effects} notices={result.notices} authors={result.authors} />
    </section>
  );
}

function Findings({ found }: { found: readonly string[] }): VNode {
  return (
    <section class="block">
      <h2>Findings</h2>
      <ul class="findings">
        {found.map((finding, index) => (
          <li key={index}>
            <Visible text={finding} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What rules in the shadow would have decided otherwise. */
function InShadow({ detail }: { detail: DecisionDetail }): VNode | null {
  if (detail.in_shadow.length === 0) return null;
  return (
    <section class="block" aria-labelledby="in-shadow">
      <h2 id="in-shadow" title={WORDS["Shadow"]}>
        In the shadow
      </h2>
      <ul class="findings">
        {detail.in_shadow.map((sentence) => (
          <li key={sentence}>
            <Visible text={sentence} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Links({ title, ids }: { title: string; ids: readonly string[] }): VNode | null {
  const found = [...new Set(ids)].filter((id) => id !== "");
  if (found.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      {found.map((id) => (
        <dd key={id}>
          <a href={addressOf(`/decisions/${id}`)}>{id}</a>
        </dd>
      ))}
    </>
  );
}

function seal({ violations }: DecisionDetail): string | null {
  if (violations === null) return null;
  return violations.length === 0 ? "verifies" : violations.map((violation) => violation.text).join("\n");
}

function Facts({ detail, undoing }: { detail: DecisionDetail; undoing: Undoing | null }): VNode {
  const facts: [string, string | null][] = [
    ["Message", detail.message],
    ["Type", detail.type_words],
    ["Intent", hasTasks() && detail.intent_type ? words(detail.intent_type) : null],
    ["Status", words(detail.status)],
    ["Started", fullTime(detail.created_at)],
    ["Duration", detail.status === "PENDING" ? null : duration(detail.duration_ms)],
    // The round in which the turn ended, as its path says.
    ["Round", detail.states?.length ? String(Math.min((detail.iterations ?? 0) + 1, topology.value?.max_iterations ?? Infinity)) : null],
    ["Model", detail.model],
    ["Tokens", detail.usage && `${detail.usage.total_tokens} (${detail.usage.prompt_tokens} in, ${detail.usage.completion_tokens} out)`],
    ["User", detail.user_id],
    ["Seal", seal(detail)],
    ["Decision", detail.decision_id],
  ];
  return (
    <section class="block">
      <h2>Record</h2>
      <dl class="arguments">
        {facts.map(
          ([name, value]) =>
            value && (
              <>
                <dt title={WORDS[name]}>{name}</dt>
                <dd>
                  <Visible text={value} />
                </dd>
              </>
            ),
        )}
        {detail.constitution && (
          <>
            <dt title={WORDS["Constitution"]}>Constitution</dt>
            <dd>
              {detail.constitution.slice(0, 12)}
              {detail.status !== "PENDING" && (
                <>
                  {" · "}
                  <a href={addressOf(`/decisions/${detail.decision_id}/rules`)}>its text and the conditions</a>
                </>
              )}
            </dd>
          </>
        )}
        <Links title="Undone by" ids={Object.values(detail.undone_by)} />
        <Links title="Undoes" ids={[undoing?.decision ?? ""]} />
        <Links title="To do again" ids={[detail.again ?? ""]} />
        <dt>Conversation</dt>
        <dd>
          <a href={addressOf(`/chat/${detail.conversation_id}`)}>open</a> ·{" "}
          <a href={addressOf(`/decisions?conversation_id=${encodeURIComponent(detail.conversation_id)}`)}>its decisions</a>
        </dd>
      </dl>
    </section>
  );
}
