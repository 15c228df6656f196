// The button that undoes what a message has changed, for as long as its line in the constitution says. It asks: a yes undoes it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, request } from "../shared/client";
import type { StoredMessage, UndoState } from "../shared/client";
import { now } from "../clock";
import { counted } from "../shared/format";
import { Visible } from "../shared/visible";
import { announce, loadConversations, open, opened } from "./store";

/** The decisions of which nothing can be undone any more. */
const final = new Set<string>();

interface Props {
  readonly message: StoredMessage;
  readonly busy: boolean;
  /** The latest message: after it another change may have been undone. */
  readonly latest: string;
}

export function Undo({ message: { decision_id: id }, busy, latest }: Props): VNode | null {
  const [until, setUntil] = useState<number | null>(null);
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  // If the answer is lost, the next click is the same request.
  const key = useRef<string | null>(null);
  useEffect(() => {
    setProblem("");
    if (final.has(id)) return setUntil(null);
    const abort = new AbortController();
    getJson<UndoState>(`/api/decisions/${id}/undo`, abort.signal).then(
      (found) => {
        if (found.calls.length === 0 && !found.unknown) final.add(id);
        setUntil(found.until === null ? null : Date.parse(found.until));
      },
      // Without an answer there is no button.
      () => undefined,
    );
    return () => abort.abort();
  }, [id, latest]);
  const ask = async (): Promise<void> => {
    setAsking(true);
    setProblem("");
    key.current ??= crypto.randomUUID();
    const conversation = opened.value?.id;
    try {
      await request(`/api/decisions/${id}/undo`, { method: "POST", headers: { "Idempotency-Key": key.current } });
      key.current = null;
      if (!conversation) return;
      announce(conversation);
      await Promise.all([open(conversation), loadConversations()]);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code !== "OFFLINE") key.current = null;
      if (error.code === "NOT_UNDOABLE") setUntil(null);
      setProblem(error.message);
    } finally {
      setAsking(false);
    }
  };
  const left = until === null ? 0 : until - now.value;
  const pending = opened.value?.pending_action ?? null;
  const isAsked = pending?.undoes?.decision_id === id;
  useLayoutEffect(() => {
    // The button goes, and with it the focus: the keyboard goes on at the question.
    if (isAsked && asking) document.querySelector<HTMLElement>(`[data-question="${pending.id}"]`)?.focus({ preventScroll: true });
  }, [isAsked]);
  return (
    <>
      {left > 0 && !isAsked && (
        <button
          type="button"
          class="undo"
          disabled={busy || asking}
          onClick={() => void ask()}
        >
          Undo ({remaining(left)} left)
        </button>
      )}
      {problem && (
        <p class="failure" role="alert">
          <Visible text={problem} />
        </p>
      )}
    </>
  );
}

function remaining(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "less than a minute";
  if (minutes < 120) return counted(minutes, "minute");
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? counted(hours, "hour") : counted(Math.floor(hours / 24), "day");
}
