// The list of decisions, newest first; it stays current while it is shown.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson } from "../shared/client";
import type { DecisionPage, LoggedDecision } from "../shared/client";
import { duration, fullTime, shortTime, words } from "../shared/format";
import { query } from "../shared/router";
import { ErrorState, Loading } from "../shared/states";
import { Visible } from "../shared/text";
import { apiQuery, Filters, filtered } from "./filters";

const PAGE = 50;
const REFRESH_MS = 5000;

export function DecisionsView(): VNode {
  const [items, setItems] = useState<readonly LoggedDecision[] | null>(null);
  const [page, setPage] = useState<DecisionPage | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const address = query.value.toString();

  const fetchPage = async (offset: number, shown: readonly LoggedDecision[], signal?: AbortSignal): Promise<void> => {
    const wanted = apiQuery();
    wanted.set("limit", String(PAGE));
    wanted.set("offset", String(offset));
    try {
      const found = await getJson<DecisionPage>(`/api/decisions?${wanted}`, signal);
      const fresh = new Set(found.items.map((item) => item.decision_id));
      const others = shown.filter((item) => !fresh.has(item.decision_id));
      setItems(offset === 0 ? [...found.items, ...others] : [...others, ...found.items]);
      // A refresh of the first page says nothing about what follows the last one.
      if (offset > 0 || shown.length <= PAGE) setPage(found);
      setError(null);
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
    }
  };

  useEffect(() => {
    const abort = new AbortController();
    setItems(null);
    void fetchPage(0, [], abort.signal);
    return () => abort.abort();
  }, [address]);
  useEffect(() => {
    if (!items) return undefined;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      if (document.visibilityState === "visible") void fetchPage(0, items, abort.signal);
      else setItems([...items]);
    }, REFRESH_MS);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [items, error]);

  return (
    <main class="decisions">
      <header class="view-title">
        <h1>Decisions</h1>
        {page && <span class="quiet">{count(page)}</span>}
      </header>
      <Filters />
      {error && !items ? (
        <ErrorState error={error} retry={() => void fetchPage(0, [])} />
      ) : !items ? (
        <Loading what="decisions" />
      ) : items.length === 0 ? (
        <p class="state-text">
          {filtered() ? "No decision matches these filters." : "No decision yet. Each message in the chat makes one."}
        </p>
      ) : (
        <>
          <ol class="rows">
            {items.map((item) => (
              <Row key={item.decision_id} item={item} />
            ))}
          </ol>
          {page?.has_more && (
            <button type="button" class="more" onClick={() => void fetchPage(items.length, items)}>
              Older decisions
            </button>
          )}
        </>
      )}
    </main>
  );
}

function count(page: DecisionPage): string {
  return `${page.total_is_exact ? "" : "more than "}${page.total.toLocaleString("en")}`;
}

function Row({ item }: { item: LoggedDecision }): VNode {
  return (
    <li>
      <a class="row" href={`/decisions/${item.decision_id}`}>
        <time dateTime={item.created_at} title={fullTime(item.created_at)}>
          {shortTime(item.created_at)}
        </time>
        <span class="row-text">
          <Visible text={item.message} />
        </span>
        <span class="row-type">{words(item.decision_type)}</span>
        <Outcome outcome={item.outcome_category} />
        <span class="row-ms">{item.status === "PENDING" ? "" : duration(item.duration_ms)}</span>
      </a>
    </li>
  );
}

/** The outcome in words; its color repeats the category. */
export function Outcome({ outcome }: { outcome: string }): VNode {
  const category = outcome.split(":")[0] ?? outcome;
  return <span class={`outcome ${category.toLowerCase()}`}>{words(outcome)}</span>;
}
