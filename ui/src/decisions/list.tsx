// The list of decisions, newest first; it stays current while it is shown.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { loadAbout } from "../shared/about";
import { ApiError, getJson, whenSignedOut } from "../shared/client";
import type { DecisionPage, LoggedDecision } from "../shared/client";
import { integer } from "../shared/format";
import { serverNow } from "../clock";
import { isReturn, query } from "../shared/router";
import { ErrorState, Loading } from "../shared/states";
import { VirtualRows } from "../shared/virtual_rows";
import { apiQuery, Filters, filtered } from "./filters";
import { decisionRow, RowHeads } from "./row";

const PAGE = 50;
const NEXT_PAGE = 100;
const REFRESH_MS = 5000;
/** The same object each time: Preact then skips the filters when decisions arrive. */
const FILTERS = <Filters />;

/** The newest decisions for one address, if they were fetched before the view is shown. */
let prepared: { readonly address: string; readonly page: DecisionPage } | null = null;

/** Rows of several servers may appear a little out of order. */
const OVERLAP_MS = 30_000;

/** True for a row before which nothing can change any more, if no row after it is open. */
function isSettled(item: LoggedDecision, index: number, items: readonly LoggedDecision[]): boolean {
  const isOld = Date.parse(item.created_at) < serverNow() - OVERLAP_MS;
  return isOld && !items.slice(index, index + PAGE).some(({ status }) => status === "PENDING");
}

/** The rows of `shown` behind those of a page; none if rows between them are missing. */
function behind(page: readonly LoggedDecision[], shown: readonly LoggedDecision[]): readonly LoggedDecision[] {
  const ids = new Set(page.map((item) => item.decision_id));
  return shown.some((item) => ids.has(item.decision_id)) ? shown.filter((item) => !ids.has(item.decision_id)) : [];
}

/** `shown` without the rows of questions that a newer row is about. */
function without(newer: readonly LoggedDecision[], shown: readonly LoggedDecision[]): readonly LoggedDecision[] {
  const questions = new Set(newer.map(({ question }) => question));
  return shown.filter(({ question }) => question === null || !questions.has(question));
}

/** Null for a failure because the decision that was named is no longer in the log. */
function ifGone(failure: unknown): null {
  if (failure instanceof ApiError && failure.status === 404) return null;
  throw failure;
}

/** Fetch the newest decisions, which the view then shows at once. */
export async function prepareDecisions(signal: AbortSignal): Promise<void> {
  prepared = { address: query.value.toString(), page: await newest(signal) };
}

/** The newest decisions; only those that are newer than `after`, if it is given. */
async function newest(signal?: AbortSignal, after?: string): Promise<DecisionPage> {
  // A range ends now, by the server's clock, which the first answer tells.
  if (query.value.has("within")) await loadAbout();
  const wanted = apiQuery();
  if (after) wanted.set("after", after);
  wanted.set("limit", String(PAGE));
  return getJson<DecisionPage>(`/api/decisions?together=true&${wanted}`, signal);
}

/** The list as the user has left it: the back button leads to the same place. */
let left: LeftList | null = null;
whenSignedOut(() => (left = null));

interface LeftList {
  readonly address: string;
  readonly page: DecisionPage;
  readonly items: readonly LoggedDecision[];
  readonly more: boolean;
  /** How far it was scrolled. */
  readonly top: number;
}

/** The address of the list with the filters that it had last. */
export function listAddress(): string {
  return left?.address ? `/decisions?${left.address}` : "/decisions";
}

export function DecisionsView(): VNode {
  const address = query.value.toString();
  const returned = useRef(isReturn && left?.address === address ? left : null).current;
  const [page, setPage] = useState<DecisionPage | null>(() => returned?.page ?? (prepared?.address === address ? prepared.page : null));
  const [items, setItems] = useState<readonly LoggedDecision[] | null>(returned?.items ?? (page && page.items));
  const [more, setMore] = useState(returned?.more ?? page?.has_more ?? false);
  const [error, setError] = useState<ApiError | null>(null);

  const loading = useRef(false);

  /** Fetch what is new, in front of the decisions that are `shown`. */
  const refresh = async (shown: readonly LoggedDecision[], signal?: AbortSignal): Promise<void> => {
    try {
      const settled = shown.findIndex(isSettled);
      const newer = settled < 0 ? null : await newest(signal, shown[settled]?.decision_id).catch(ifGone);
      const isComplete = newer !== null && !newer.has_more;
      const found = isComplete ? newer : await newest(signal);
      const kept = without(found.items, isComplete ? shown.slice(settled) : behind(found.items, shown));
      setItems([...found.items, ...kept]);
      setPage(found);
      // A refresh says nothing about what follows the last of the rows that stay.
      if (kept.length === 0) setMore(found.has_more);
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
      const found = await getJson<DecisionPage>(`/api/decisions?together=true&${wanted}`);
      setItems((known) => (known?.at(-1) === last ? [...known, ...found.items] : known));
      setMore(found.has_more);
    } catch {
      // Scrolling on tries again.
    } finally {
      loading.current = false;
    }
  };

  const main = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    if (returned) main.current?.scrollTo({ top: returned.top });
  }, []);
  const isNew = useRef(true);
  const known = useRef({ page, items, more });
  known.current = { page, items, more };
  useLayoutEffect(() => {
    const scroller = main.current;
    let top = scroller?.scrollTop ?? 0;
    const scrolled = (): void => void (top = scroller?.scrollTop ?? 0);
    scroller?.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      const { page, items, more } = known.current;
      if (page && items) left = { address, page, items, more, top };
    };
  }, [address]);
  useEffect(() => {
    const isShown = isNew.current && items !== null;
    isNew.current = false;
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
    <main class="decisions" ref={main} tabindex={0}>
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
          <RowHeads />
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
