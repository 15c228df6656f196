// The list of decisions, newest first; it stays current while it is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson } from "../shared/client";
import type { DecisionPage, LoggedDecision } from "../shared/client";
import { integer } from "../shared/format";
import { query } from "../shared/router";
import { ErrorState, Loading } from "../shared/states";
import { VirtualRows } from "../shared/virtual_rows";
import { apiQuery, Filters, filtered } from "./filters";
import { decisionRow } from "./row";

const PAGE = 50;
const NEXT_PAGE = 100;
const REFRESH_MS = 5000;
/** The same object each time: Preact then skips the filters when decisions arrive. */
const FILTERS = <Filters />;

/** The newest decisions for one address, if they were fetched before the view is shown. */
let prepared: { readonly address: string; readonly page: DecisionPage } | null = null;

/** Fetch the newest decisions, which the view then shows at once. */
export async function prepareDecisions(signal: AbortSignal): Promise<void> {
  prepared = { address: query.value.toString(), page: await newest(signal) };
}

function newest(signal?: AbortSignal): Promise<DecisionPage> {
  const wanted = apiQuery();
  wanted.set("limit", String(PAGE));
  return getJson<DecisionPage>(`/api/decisions?${wanted}`, signal);
}

export function DecisionsView(): VNode {
  const address = query.value.toString();
  const [page, setPage] = useState<DecisionPage | null>(() => (prepared?.address === address ? prepared.page : null));
  const [items, setItems] = useState<readonly LoggedDecision[] | null>(page && page.items);
  const [more, setMore] = useState(page?.has_more ?? false);
  const [error, setError] = useState<ApiError | null>(null);

  const loading = useRef(false);

  /** Fetch the newest decisions, in front of those that are `shown`. */
  const refresh = async (shown: readonly LoggedDecision[], signal?: AbortSignal): Promise<void> => {
    try {
      const found = await newest(signal);
      const fresh = new Set(found.items.map((item) => item.decision_id));
      setItems([...found.items, ...shown.filter((item) => !fresh.has(item.decision_id))]);
      setPage(found);
      // A refresh of the first page says nothing about what follows the last one.
      if (shown.length <= PAGE) setMore(found.has_more);
      setError(null);
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
    }
  };

  /** Fetch the decisions behind the last one. */
  const loadOlder = async (): Promise<void> => {
    const last = items?.at(-1);
    if (!last || !more || loading.current) return;
    loading.current = true;
    const wanted = apiQuery();
    wanted.set("limit", String(NEXT_PAGE));
    wanted.set("before", last.decision_id);
    try {
      const found = await getJson<DecisionPage>(`/api/decisions?${wanted}`);
      setItems((known) => (known?.at(-1) === last ? [...known, ...found.items] : known));
      setMore(found.has_more);
    } catch {
      // Scrolling on tries again.
    } finally {
      loading.current = false;
    }
  };

  useEffect(() => {
    const isShown = prepared?.address === address;
    prepared = null;
    if (isShown) return undefined;
    const abort = new AbortController();
    setItems(null);
    void refresh([], abort.signal);
    return () => abort.abort();
  }, [address]);
  useEffect(() => {
    if (!items) return undefined;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      if (document.visibilityState === "visible") void refresh(items, abort.signal);
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
      {FILTERS}
      {error && !items ? (
        <ErrorState error={error} retry={() => void refresh([])} />
      ) : !items ? (
        <Loading what="decisions" />
      ) : items.length === 0 ? (
        <p class="state-text">
          {filtered() ? "No decision matches these filters." : "No decision yet. Each message in the chat makes one."}
        </p>
      ) : (
        <>
          <VirtualRows
            items={items}
            row={decisionRow}
            size={more ? (page?.total_is_exact ? page.total : -1) : items.length}
            onNearEnd={() => void loadOlder()}
          />
          {more && <Loading what="older decisions" />}
        </>
      )}
    </main>
  );
}

function count(page: DecisionPage): string {
  return `${page.total_is_exact ? "" : "more than "}${integer(page.total)}`;
}
